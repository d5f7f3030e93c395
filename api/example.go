package api

// The examples of the document are requests to one small log, which
// TestExamples makes and answers. They are of the ledger ledger.example/test at
// 1790000000, Unix seconds; the key of example-agent is its seed of 32 bytes 7,
// which everybody knows.
const (
	exampleCosigned = `"ledger.example/test\n1\nn+ocRyXMG46RCwdJJG3SfhXXwDfQ8vBVUHkTRkRQbvQ=\n\n\u2014 witness.example/1 jNB2ngAAAABqsS4A\n"`
	exampleEnvelope = `{"payload":"eyJhdWQiOiJsZWRnZXIuZXhhbXBsZS90ZXN0IiwiZWZmZWN0Ijoibm9uZSIsImV4ZWMiOiJzZWFyY2giLCJpYXQiOjE3OTAwMDAwMDAsImlz` +
		`cyI6ImV4YW1wbGUtYWdlbnQiLCJqdGkiOiIwYjU0YjBhOC05YzVhLTRmMGUtOGQ1My0zZTdjMmIxZjZhNzAiLCJwYXJlbnRzIjpbXSwicHJvZ3Jlc3MiOiJj` +
		`b25maXJtZWQiLCJ2IjoxLCJ3aWQiOiJmbG93LTEifQ==","payloadType":"application/vnd.agent-recovery.execution+json","signatures"` +
		`:[{"keyid":"SHA256:z/fSv0Z0RZS+Lccbc6ZoOWwt/fbj1VFJGSBKQbo4icE","sig":"pZoqmm3pbIRQM7xTxl1jrujW/B8M7bW5RqR036ShkfYSRbhOO` +
		`Kb14LymVp7QSaein4Y+iNX4rkNcTLnFzbr0DA=="}]}`
	exampleRenewal = `{"aud":"ledger.example/test","iss":"example-agent","keyid":"SHA256:z/fSv0Z0RZS+Lccbc6ZoOWwt/fbj1VFJGSBKQbo4icE","leases"` +
		`:[{"epoch":1,"task":"olga#book-room"}],"seq":1,"session":"0b54b0a89c5a4f0e8d533e7c2b1f6a70","sig":"dcBZzIvnOul1NxD+Lusjy` +
		`6x0+qJKyaiQwVgm9K+KYCVfH2Fz9W5HzGzin2khZlU20Pyv5z14eIDo6QW0SdGAAQ=="}`
	exampleCase = `{"v":1,"id":"case-1","agent":"agent-1","steps":[{"id":"search","effect":"none","outcome":"failed",` +
		`"failure":{"raw":{"http_status":529}},"attempts":[{"strategy":"fallback_model","outcome":"ok"}]}]}`
	exampleQuestion = `{"history":{"case":"order-7","step":"charge","effect":"compensable","idempotent":true},"error":{"http_status":503},"elapsed_ms":1500}`
	exampleHealthy  = `{"v":1,"id":"case-2","agent":"agent-1","steps":[{"id":"search","effect":"none","outcome":"ok"}]}`
)
