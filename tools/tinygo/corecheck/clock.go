package corecheck

import (
	"go/ast"
	"go/types"
)

// clock reports what a use of package time reads: the clock, a time zone, or a
// layout.
func (c check) clock(id *ast.Ident, object types.Object, parents []ast.Node) {
	if f, ok := object.(*types.Func); ok {
		if receiver := f.Signature().Recv(); receiver != nil {
			if !timeMethod(receiver.Type(), id.Name) {
				c.Reportf(id.Pos(), "%s of a time.Time: it formats or asks for a time zone; keep to UTC and to numbers", id.Name)
			}
			return
		}
	}
	switch {
	case inUTC(id.Name):
		if !callsUTC(parents) {
			c.Reportf(id.Pos(), "time.%s without UTC: local time reads the zone's file; say time.%s(...).UTC()", id.Name, id.Name)
		}
	case readsClock(id.Name):
		c.Reportf(id.Pos(), "time.%s: time comes in as an argument; the core reads no clock and waits for nothing", id.Name)
	case !timeName(object, id.Name):
		c.Reportf(id.Pos(), "time.%s: the core uses durations, and times in UTC without formatting", id.Name)
	}
}

func readsClock(name string) bool {
	switch name {
	case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Timer", "Ticker":
		return true
	}
	return false
}

// inUTC lists the functions whose result is in local time.
func inUTC(name string) bool { return name == "Unix" || name == "UnixMilli" || name == "UnixMicro" }

// timeName lists what else may be used of the package. A field is of a type
// that was reported where it was named.
func timeName(object types.Object, name string) bool {
	switch o := object.(type) {
	case *types.Const:
		return types.TypeString(o.Type(), nil) != "untyped string" // layouts
	case *types.TypeName:
		return name == "Duration" || name == "Time" || name == "Month" || name == "Weekday"
	case *types.Func:
		return name == "Date"
	case *types.Var:
		return name == "UTC" || o.IsField()
	}
	return true
}

// timeMethod lists the methods that only compute.
func timeMethod(receiver types.Type, name string) bool {
	if p, ok := receiver.(*types.Pointer); ok {
		receiver = p.Elem()
	}
	named, ok := receiver.(*types.Named)
	if !ok || named.Obj().Name() != "Time" {
		return true // Duration, Month, Weekday; other types cannot be named
	}
	switch name {
	case "Add", "AddDate", "After", "Before", "Clock", "Compare", "Date", "Day", "Equal", "Hour", "ISOWeek", "IsZero",
		"Minute", "Month", "Nanosecond", "Round", "Second", "Sub", "Truncate", "UTC",
		"Unix", "UnixMicro", "UnixMilli", "UnixNano", "Weekday", "Year", "YearDay":
		return true
	}
	return false
}

// callsUTC reports whether parents, those of the name of a function with the
// innermost last, read time.F(...).UTC.
func callsUTC(parents []ast.Node) bool {
	n := len(parents)
	if n < 3 {
		return false
	}
	function, isName := parents[n-1].(*ast.SelectorExpr) // time.F
	call, isCall := parents[n-2].(*ast.CallExpr)
	method, isMethod := parents[n-3].(*ast.SelectorExpr)
	return isName && isCall && isMethod && call.Fun == function && method.X == call && method.Sel.Name == "UTC"
}
