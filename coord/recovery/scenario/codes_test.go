package scenario

import "testing"

func TestCodesInTexts(t *testing.T) {
	for text, want := range map[string]string{
		"rpc error: code = Unavailable desc = x":                        "transient.unavailable gRPC code UNAVAILABLE",
		"get: rpc error: code = ResourceExhausted desc = x":             "capacity.rate_limited gRPC code RESOURCE_EXHAUSTED",
		"14 UNAVAILABLE: x":                                             "transient.unavailable gRPC code UNAVAILABLE",
		"status = StatusCode.PERMISSION_DENIED":                         "access.denied gRPC code PERMISSION_DENIED",
		"connect ECONNREFUSED 127.0.0.1:80":                             "transient.unavailable code ECONNREFUSED",
		"Error: spawn foo ENOENT":                                       "output.bad_arguments code ENOENT",
		"OSError: [Errno 28] x: '/y'":                                   "capacity.quota_exhausted code ENOSPC",
		"MCP error -32602: x":                                           "output.bad_arguments code -32602",
		"Error: 404 Not Found":                                          "request.invalid HTTP status 404",
		"422 Unprocessable Entity":                                      "request.invalid HTTP status 422",
		"payment gateway: 503 Service Unavailable":                      "transient.unavailable HTTP status 503",
		"429: Too Many Requests":                                        "capacity.rate_limited HTTP status 429",
		"exceptions.PermissionError: [Errno 13] Permission denied: 'x'": "access.denied exception exceptions.PermissionError",
		"1404 not foundation":                                           "unknown ",
		"99 BOTTLES: x":                                                 "unknown ",
		"rpc error: code = ":                                            "unknown ",
		"StatusCode.":                                                   "unknown ",
		"[Errno 9999] x":                                                "unknown ",
		"[Errno ":                                                       "unknown ",
		"-32":                                                           "unknown ",
		"THE WHOLE TEXT IS SHOUTED":                                     "unknown ",
	} {
		label, cause := causes().formIn(text)
		if got := label.String() + " " + cause; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
