package scenario

import "testing"

// The errors of clients that a tool returns as its answer are failures, and have the label of their
// code.
func TestErrorsOfClientsPassAsNoAnswer(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTPError: 503 Server Error: Service Unavailable for url: http://x/":                     "transient.unavailable",
		"requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://x/": "transient.unavailable",
		"503 Server Error: Service Unavailable for url: http://x/":                                "transient.unavailable",
		"429 Client Error: Too Many Requests for url: http://x/":                                  "capacity.rate_limited",
		"429 Too Many Requests for url: http://x/":                                                "capacity.rate_limited",
		"429 Too Many Requests":                             "capacity.rate_limited",
		"HTTPError: 429":                                    "capacity.rate_limited",
		"HTTPException: 401: bad key":                       "access.unauthenticated",
		"HTTP Error 404: Not Found":                         "request.invalid",
		"urllib.error.HTTPError: HTTP Error 403: Forbidden": "access.denied",
		"ToolException: HTTPError: 504 Server Error: Gateway Time-out for url: http://x/":            "transient.timeout",
		"Client error '404 Not Found' for url 'http://x/'\nFor more information check: http://y/404": "request.invalid",
		"httpx.HTTPStatusError: Server error '502 Bad Gateway' for url 'http://x/'":                  "transient.unavailable",
		"AxiosError: Request failed with status code 429":                                            "capacity.rate_limited",
		"openai.RateLimitError: Error code: 429 - {'error': {}}":                                     "capacity.rate_limited",
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\n\r\n":                                 "transient.unavailable",
		"ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /": "transient.unavailable",
		"requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='x', port=443)":                "transient.timeout",
		"MCP error -32602: bad":                                                                                        "output.bad_arguments",
		"rpc error: code = Unavailable desc = x":                                                                       "transient.unavailable",
		"14 UNAVAILABLE: no connection":                                                                                "transient.unavailable",
		"connect ECONNREFUSED 127.0.0.1:80":                                                                            "transient.unavailable",
		"ENOENT: no such file or directory, open 'x'":                                                                  "output.bad_arguments",
		"getaddrinfo ENOTFOUND example.invalid":                                                                        "transient.unavailable",
		"[Errno 13] Permission denied: 'x'":                                                                            "access.denied",
		"PermissionError: [Errno 13] Permission denied: 'x'":                                                           "access.denied",
		"curl: (22) The requested URL returned error: 503":                                                             "transient.unavailable",
		"java.net.SocketTimeoutException: Read timed out":                                                              "transient.timeout",
		"java.io.FileNotFoundException: x\n\tat A.b(A.java:1)":                                                         "output.bad_arguments",
		"TypeError: Cannot read properties of undefined (reading 'x')\n    at f (a.js:1:2)":                            "output.bad_arguments",
		"Error executing tool fetch: 404 Not Found":                                                                    "request.invalid",
		"An error occurred while running the tool. Please try again. Error: x":                                         "unknown",
		"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>": "transient.unavailable",
		"<!DOCTYPE HTML>\n<html><head><title>503 Service Temporarily Unavailable</title></head><body>Please wait</body></html>": "transient.unavailable",
	} {
		raw, failed := FailureIn(answer)
		if got := Classify(raw).String(); !failed || got != want {
			t.Errorf("%q: failed %t, %s; want %s", answer, failed, got, want)
		}
	}
}

// Answers about errors are answers, whatever codes and names they have.
func TestAnswersAboutErrorsAreAnswers(t *testing.T) {
	for _, answer := range []string{
		"TypeError: a novel",
		"ValueError: raised when a function receives an argument of the right type and a wrong value",
		"HTTPError: the class that requests raises for 503 Server Error",
		"The last request gave HTTPError: 503 Server Error: Service Unavailable for url: http://x/; the retry was good",
		"429 Too Many Requests\n\nThe status says that the client has sent too many requests in a given time.",
		"404 Not Found: a history of the missing page",
		"503 seats are left",
		"500 Internal Street, Springfield",
		"404 not foundry roads",
		"1. requests.exceptions.HTTPError: 503 Server Error - Stack Overflow\n2. Retry on 429",
		"java.lang.NullPointerException: how to find it\nThis page explains stack traces.",
		"HTTP Error 404 pages: 20 designs",
		"Request failed with status code 503 in 2 of 40 probes",
		"Error code: 429 means that the client has to slow down",
		"rpc error: code = is what clients in Go print",
		"14 BOTTLES: of beer",
		"ENOENT is the name of errno 2",
		"connect ECONNREFUSED explained by examples",
		"curl: a tool for transfers",
		"HTTP/1.1 200 OK\r\n\r\n503 Service Unavailable",
		"<html><head><title>429 Too Many Requests - HTTP | MDN</title></head></html>",
		"<html><head><title>404 Media</title></head></html>",
		"<html><head><title>News</title></head><body>503 Service Unavailable</body></html>",
		"Errors executing tools are logged",
		"[Errno 13] ",
		"EXPO: opens on Monday",
		"Remainder: 512",
		"",
	} {
		if raw, failed := FailureIn(answer); failed {
			t.Errorf("%q is a failure: %+v", answer, raw)
		}
	}
}
