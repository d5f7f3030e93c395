package recovery

// What tests outside of the package compare.
var (
	BuiltIn = builtIns
	Schema  = []byte(schemaText)
)
