package api

import (
	"net/http"
	"reflect"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// entryRoutes write entries, and read them one by one.
func entryRoutes() []Route {
	index := inPath("index", schemaNumber, 1, "position in the log, from 0")
	receipts := content(MediaNDJSON, lines("with links=true: the receipt, then the receipts of the policies and agent entries that verify its signer", of[verify.Receipt]()))
	registered := Response{
		Status: http.StatusCreated, Doc: "the entry is registered; the receipt", Content: []Content{content(MediaJSON, of[verify.Receipt]()), receipts},
		Headers: []Header{{HeaderRegisteredAt, "registered_at, Unix milliseconds", schemaNumber}, {"Location", "path of the entry", schemaText}},
	}
	before := Response{Status: http.StatusOK, Doc: "the entry was registered before, and this is its receipt; or the answer to a batch", Content: []Content{
		content(MediaJSON, of[verify.Receipt]()),
		content(MediaNDJSON, lines("the tree head, then the results, then at most one problem; with links=true, receipts too",
			of[BatchHead](), of[BatchLine](), of[Problem](), of[verify.Receipt]())),
	}}
	return []Route{{
		Name: "submit", Ordered: true, Method: http.MethodPost, Path: PathEntries, Summary: "Register an entry, or a batch of them",
		Doc: "For one DSSE envelope, the answer is 201 and the receipt. For the same envelope again, the answer is 200 and a receipt of the same index. " +
			"A batch is NDJSON with one envelope a line. The ledger registers the lines in order, up to the first line that it refuses. The answer has " +
			"the tree head, a line for each registered entry, and the problem of the refused line, if there is one. If no line was registered, the " +
			"answer is the problem. Sending the same bytes again is safe.",
		Query: asked[ReceiptQuery],
		Takes: []Content{
			{MediaJSON, of[Envelope](), exampleEnvelope}, {MediaDSSE, of[Envelope](), exampleEnvelope},
			{MediaNDJSON, lines("one envelope a line", of[Envelope]()), "[" + exampleEnvelope + "]"},
		},
		Answers: withBody("the request arrived too slowly", registered, before),
		Problems: []entry.Problem{entry.Malformed, entry.UnsupportedAlg, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole,
			entry.NoStanding, entry.WrongAudience, entry.ScopeExceedsPolicy, entry.IDConflict, entry.StateConflict, entry.PolicySuperseded,
			entry.FencedDependency, entry.StaleEpoch, entry.TooLarge, entry.Stale, entry.UnknownSubject, entry.ScopeMismatch, entry.NotReady,
			entry.InsufficientStorage},
	}, {
		Name: "list", Method: http.MethodGet, Path: PathEntries, Summary: "Find entries", Query: asked[ListQuery],
		Doc:     "Every entry comes with its proof under the page's tree head. The page does not prove that no entry is left out: a complete history does, and an audit of the log.",
		Answers: ok("a page; follow next until it is absent", of[Page]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "entry", Method: http.MethodGet, Path: PathEntry, Summary: "Read an entry", Params: []Param{index},
		Answers: ok("the entry, which never changes", of[Entry]()), Problems: missing(),
	}, {
		Name: "receipt", Method: http.MethodGet, Path: PathReceipt, Summary: "Prove an entry", Params: []Param{index}, Query: asked[ReceiptQuery],
		Answers: []Response{{Status: http.StatusOK, Doc: "the receipt under the newest tree head; with witnessed=true, under a tree head that the " +
			"witnesses have cosigned, if there is one in time; the header " + HeaderWitnessed + " says which", Content: []Content{
			content(MediaJSON, of[verify.Receipt]()), receipts}}},
		Problems: missing(), Public: true,
	}, {
		Name: "cose", Method: http.MethodGet, Path: PathCOSE, Summary: "Prove an entry to a verifier of COSE receipts", Params: []Param{index},
		Doc: "A COSE receipt (RFC 9942) of the verifiable data structure RFC9162_SHA256 under the newest tree head, which the ledger signs anew. The leaf is that of the receipt.",
		Answers: []Response{{Status: http.StatusOK, Doc: "the COSE receipt", Content: []Content{
			content(MediaCOSE, Schema{JSON: "{}"})}}},
		Problems: missing(), Public: true,
	}}
}

// missing are the problems of a path that may name nothing.
func missing() []entry.Problem { return []entry.Problem{entry.Malformed, entry.NotFound} }

// logRoutes read the log as a whole.
func logRoutes() []Route {
	event := func(name, id, data string) Schema {
		return Schema{JSON: `{"title":"` + name + `","type":"object","required":[` + id + `"event","data"],"properties":{` +
			`"event":{"type":"string","enum":["` + name + `"]},"id":` + schemaNumber + `,"data":` + component(data) + `}}`}
	}
	events := lines("the fields of each event; data is one line of JSON", event(EventHead, "", "HeadEvent"), event(EventEntry, `"id",`, "Item"))
	events.Uses = []reflect.Type{reflect.TypeFor[HeadEvent](), reflect.TypeFor[Item]()}
	stream := []Response{{Status: http.StatusOK, Doc: "events, without end", Content: []Content{content(MediaEvents, events)}}}
	tile := func(doc string) []Response { // the media type says all (OpenAPI 3.1, section 4.8.14.2)
		return []Response{{Status: http.StatusOK, Doc: doc, Content: []Content{content(MediaTile, Schema{JSON: "{}"})}}}
	}
	return []Route{{
		Name: "consistency", Method: http.MethodGet, Path: PathConsistency, Summary: "Prove that the log only grew",
		Params:  []Param{inPath("old", schemaNumber, 1, "the smaller size"), inPath("new", schemaNumber, 3, "the larger size")},
		Answers: ok("the proof", of[verify.Consistency]()), Problems: missing(), Public: true,
	}, {
		Name: "log", Method: http.MethodGet, Path: PathLog, Summary: "Name the log", Doc: "A verifier must get the values that it pins from another source.",
		Answers: ok("name, keys and size", of[Log]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "round", Ordered: true, Method: http.MethodGet, Path: PathRound, Summary: "Ask for the tree head to cosign", Query: asked[RoundQuery],
		Doc: "A witness that the policy names without a URL asks here what to cosign, and pushes its cosignature. If the other witnesses make a quorum, " +
			"they have cosigned the tree head already. The tree head stays for a second, so that all pushing witnesses cosign the same one. A tree head " +
			"with no more than from entries is there to be cosigned again: its cosignatures grow old.",
		Answers: ok("the tree head, and the consistency proof to it", of[Round]()), Problems: []entry.Problem{entry.Malformed, entry.NotFound},
	}, {
		Name: "cosign", Ordered: true, Method: http.MethodPost, Path: PathCosign, Summary: "Push cosignatures on a tree head",
		Doc: "The body is the text of the tree head, an empty line, and lines of cosignatures (c2sp.org/tlog-cosignature). The witnesses must stand in " +
			"the policy in force or in an earlier policy. The tree head must be one of the newest rounds.",
		Takes:    []Content{{MediaNote, Schema{JSON: schemaText}, exampleCosigned}},
		Answers:  withBody("the request arrived too slowly", ok("the number of witnesses whose cosignature was taken", of[Cosigned]())...),
		Problems: []entry.Problem{entry.Malformed, entry.TooLarge, entry.UnknownIssuer, entry.Stale, entry.BadSignature, entry.StateConflict},
	}, {
		Name: "evidence", Method: http.MethodGet, Path: PathEvidence, Summary: "List evidence", Query: asked[EvidenceQuery],
		Doc: "Evidence that agents signed two objects under one id: the log has other bytes under that id. Each document has the receipts of the entry " +
			"and of the keys. arl verify reads a document, or the whole answer, from a file.",
		Answers: ok("a page", of[EvidencePage]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "events", Method: http.MethodGet, Path: PathEvents, Summary: "Follow the log", Query: asked[EventsQuery],
		Doc: "A stream of server-sent events. A head event announces the tree head of the entries that follow, with the proof that this head continues " +
			"the previous one. An entry event has the entry's index as its id. A client resumes with the header Last-Event-ID. The server sends a comment " +
			"now and then, so that a client notices a dead connection. With filters, only entries that match all of them come; the ids stay the indexes " +
			"of the log.",
		Params:  []Param{{Name: "Last-Event-ID", In: "header", Doc: "index of the last entry received; the stream then ignores from", Schema: schemaNumber, Example: 3}},
		Answers: stream, Problems: missing(), Plain: true,
	}, {
		Name: "checkpoint", Method: http.MethodGet, Path: PathCheckpoint, Summary: "Read the published tree head",
		Doc: "The published tree head (c2sp.org/tlog-checkpoint), signed with Ed25519 and ML-DSA-44. It is at most a second old. If the policy names " +
			"witnesses, it is the newest tree head that their quorum has cosigned.",
		Answers: []Response{{Status: http.StatusOK, Doc: "a signed note", Content: []Content{content(MediaNote, Schema{JSON: schemaText})}},
			{Status: http.StatusNotModified, Doc: "If-None-Match names the newest tree head"}},
		Problems: []entry.Problem{entry.Malformed}, Public: true, Plain: true,
	}, {
		Name: "tile", Method: http.MethodGet, Path: PathTile, Summary: "Read a hash tile",
		Doc:     "A hash tile (c2sp.org/tlog-tiles), named <level>/<index>[.p/<width>], such as 0/x001/x234/067 or 0/000.p/17. A tile never changes.",
		Params:  []Param{inPath("path", schemaText, "0/000.p/3", "level, index and width, with slashes between them")},
		Answers: tile("hashes of 32 bytes"), Problems: missing(), Public: true, Plain: true,
	}, {
		Name: "bundle", Method: http.MethodGet, Path: PathEntryTile, Summary: "Read a bundle of leaves",
		Doc:     "An entry bundle (c2sp.org/tlog-tiles), named <index>[.p/<width>], such as 000 or x001/067.p/17. A bundle never changes. The server compresses it with gzip if the client accepts that.",
		Params:  []Param{inPath("path", schemaText, "000.p/3", "index and width, with slashes between them")},
		Answers: tile("leaves, each after its length in two bytes"), Problems: missing(), Public: true,
	}}
}

// selfRoutes are about the server itself.
func selfRoutes() []Route {
	document := tagged("OpenAPI 3.1", Schema{JSON: `{"type":"object"}`})
	document[0].Content[0].MediaType = MediaOpenAPI
	return []Route{{
		Name: "health", Method: http.MethodGet, Path: PathHealth, Summary: "Ask whether the process answers",
		Answers: ok("the process answers", of[Status]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "ready", Method: http.MethodGet, Path: PathReady, Summary: "Ask whether entries are taken",
		Answers: ok("the ledger takes entries", of[Status]()), Problems: []entry.Problem{entry.Malformed, entry.NotReady, entry.InsufficientStorage},
	}, {
		Name: "leader", Method: http.MethodGet, Path: PathLeader, Summary: "Ask whether this node orders the log",
		Doc:     "For a load balancer that sends entries to the leader alone. Any node takes entries, and passes them on. A ledger of one node orders its log itself.",
		Answers: ok("this node orders the log", of[Status]()), Problems: []entry.Problem{entry.Malformed, entry.NotReady},
	}, {
		Name: "cluster", Method: http.MethodGet, Path: PathCluster, Summary: "Name the nodes of the cluster",
		Doc:     "The nodes as the one that answers knows them. A node that is cut off answers what it knew last. A ledger of one node is none of a cluster.",
		Answers: ok("the nodes", of[Cluster]()), Problems: []entry.Problem{entry.Malformed, entry.NotFound, entry.NotReady},
	}, {
		Name: "metrics", Method: http.MethodGet, Path: PathMetrics, Summary: "Read the metrics", Plain: true,
		Answers: []Response{{Status: http.StatusOK, Doc: "Prometheus text format", Content: []Content{content("text/plain", Schema{JSON: schemaText})}}},
	}, {
		Name: "openapi", Method: http.MethodGet, Path: PathDocument, Summary: "Read this document", Answers: document,
	}}
}
