package api

import (
	"machined/api/machinepb"
	"machined/api/pki"
)

// methodRole returns the least role that may call the method. A method that is
// missing here is for administrators only, so that forgetting one fails safe.
func methodRole(fullMethod string) pki.Role {
	switch fullMethod {
	case machinepb.MachineService_Version_FullMethodName,
		machinepb.MachineService_ListResources_FullMethodName,
		machinepb.MachineService_Watch_FullMethodName,
		machinepb.MachineService_ServiceList_FullMethodName,
		machinepb.MachineService_Logs_FullMethodName,
		"/grpc.health.v1.Health/Check",
		"/grpc.health.v1.Health/List",
		"/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return pki.RoleReader
	case machinepb.MachineService_Reboot_FullMethodName,
		machinepb.MachineService_Shutdown_FullMethodName,
		machinepb.MachineService_ServiceStart_FullMethodName,
		machinepb.MachineService_ServiceStop_FullMethodName,
		machinepb.MachineService_ServiceRestart_FullMethodName:
		return pki.RoleOperator
	}
	return pki.RoleAdmin
}
