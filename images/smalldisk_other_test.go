//go:build !linux

package images_test

import "testing"

func smallDisk(t *testing.T) string {
	t.Skip("mounting a small file system is written for Linux")
	return ""
}
