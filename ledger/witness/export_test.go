package witness

// ParseRequest is the reader of requests, for a fuzz target.
var ParseRequest = parseRequest
