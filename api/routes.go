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
	receipts := content(MediaNDJSON, lines("with links=true: the receipt, then those of the policies and agent entries that its signer counts by", of[verify.Receipt]()))
	registered := Response{
		Status: http.StatusCreated, Doc: "registered: the receipt", Content: []Content{content(MediaJSON, of[verify.Receipt]()), receipts},
		Headers: []Header{{HeaderRegisteredAt, "registered_at, Unix milliseconds", schemaNumber}, {"Location", "of the entry", schemaText}},
	}
	before := Response{Status: http.StatusOK, Doc: "registered before: the receipt; or the answer to a batch", Content: []Content{
		content(MediaJSON, of[verify.Receipt]()),
		content(MediaNDJSON, lines("first the head, then results, then at most one problem; with links=true, receipts",
			of[BatchHead](), of[BatchLine](), of[Problem](), of[verify.Receipt]())),
	}}
	return []Route{{
		Name: "submit", Method: http.MethodPost, Path: PathEntries, Summary: "Register an entry, or a batch of them",
		Doc: "One DSSE envelope: 201 and its receipt. The same again: 200 and the receipt of the same index. NDJSON, an envelope a line: " +
			"an ordered prefix is registered, up to the first line that is refused; the answer is the tree head, a line for each entry " +
			"registered, and the problem that ended the prefix, if any. If nothing was registered the answer is the problem. Sending again is safe.",
		Query: asked[ReceiptQuery],
		Takes: []Content{
			{MediaJSON, of[Envelope](), exampleEnvelope}, {MediaDSSE, of[Envelope](), exampleEnvelope},
			{MediaNDJSON, lines("one envelope a line", of[Envelope]()), "[" + exampleEnvelope + "]"},
		},
		Answers: withBody("the request came too slowly", registered, before),
		Problems: []entry.Problem{entry.Malformed, entry.UnsupportedAlg, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole,
			entry.NoStanding, entry.WrongAudience, entry.ScopeExceedsPolicy, entry.IDConflict, entry.StateConflict, entry.PolicySuperseded,
			entry.FencedDependency, entry.StaleEpoch, entry.TooLarge, entry.Stale, entry.UnknownSubject, entry.ScopeMismatch, entry.NotReady,
			entry.InsufficientStorage},
	}, {
		Name: "list", Method: http.MethodGet, Path: PathEntries, Summary: "Find entries", Query: asked[ListQuery],
		Doc:     "Every entry comes with its proof under the page's tree head. That none was left out is not proven: audit the log for that.",
		Answers: ok("a page; follow next to the end", of[Page]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "entry", Method: http.MethodGet, Path: PathEntry, Summary: "Read an entry", Params: []Param{index},
		Answers: ok("the entry, which never changes", of[Entry]()), Problems: missing(),
	}, {
		Name: "receipt", Method: http.MethodGet, Path: PathReceipt, Summary: "Prove an entry", Params: []Param{index}, Query: asked[ReceiptQuery],
		Answers: []Response{{Status: http.StatusOK, Doc: "the receipt under the newest tree head; with witnessed=true, under one that the witnesses have cosigned if there is one in time; the header " + HeaderWitnessed + " says which", Content: []Content{
			content(MediaJSON, of[verify.Receipt]()), receipts}}},
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
		Name: "log", Method: http.MethodGet, Path: PathLog, Summary: "Name the log", Doc: "What a verifier pins must not come from here.",
		Answers: ok("name, keys and size", of[Log]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "round", Method: http.MethodGet, Path: PathRound, Summary: "Ask for the tree head to cosign", Query: asked[RoundQuery],
		Doc: "For witnesses that the policy names without a URL, which push. The head is one that the other witnesses have cosigned, where these make the " +
			"quorum; it stays for a second, so that those who push cosign the same. Where it has no more than from entries, its cosignatures are to be renewed.",
		Answers: ok("the tree head and the way to it", of[Round]()), Problems: []entry.Problem{entry.Malformed, entry.NotFound},
	}, {
		Name: "cosign", Method: http.MethodPost, Path: PathCosign, Summary: "Push cosignatures on a tree head",
		Doc: "The text of the tree head, an empty line, and lines of cosignatures (c2sp.org/tlog-cosignature) of witnesses whom the policy in force names, " +
			"or one before it: over a tree head of one of the newest rounds.",
		Takes:    []Content{{MediaNote, Schema{JSON: schemaText}, exampleCosigned}},
		Answers:  withBody("the request came too slowly", ok("how many counted", of[Cosigned]())...),
		Problems: []entry.Problem{entry.Malformed, entry.TooLarge, entry.UnknownIssuer, entry.Stale, entry.BadSignature, entry.StateConflict},
	}, {
		Name: "evidence", Method: http.MethodGet, Path: PathEvidence, Summary: "List evidence", Query: asked[EvidenceQuery],
		Doc: "Objects that agents signed under an id that the log has with other bytes. Each stands with the receipts of the entry and of the keys: " +
			"saved to a file, an element or the whole answer is what arl verify takes.",
		Answers: ok("a page", of[EvidencePage]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "events", Method: http.MethodGet, Path: PathEvents, Summary: "Follow the log", Query: asked[EventsQuery],
		Doc: "Server-sent events. A head event announces the tree head that the following entries stand under, with the proof that the one " +
			"before is a prefix; an entry event has the index as its id. Resume with the header Last-Event-ID, which goes before from. Silence is broken by comments." +
			" With filters, all of which must match, only some entries come; the ids stay those of the log, and so does resuming.",
		Params:  []Param{{Name: "Last-Event-ID", In: "header", Doc: "the last index received; goes before from", Schema: schemaNumber, Example: 3}},
		Answers: stream, Problems: missing(), Plain: true,
	}, {
		Name: "checkpoint", Method: http.MethodGet, Path: PathCheckpoint, Summary: "Read the published tree head",
		Doc: "c2sp.org/tlog-checkpoint, signed with Ed25519 and ML-DSA-44; at most a second behind. Where the policy names witnesses, it is the newest that their quorum has cosigned.",
		Answers: []Response{{Status: http.StatusOK, Doc: "a signed note", Content: []Content{content(MediaNote, Schema{JSON: schemaText})}},
			{Status: http.StatusNotModified, Doc: "If-None-Match names the newest"}},
		Problems: []entry.Problem{entry.Malformed}, Public: true, Plain: true,
	}, {
		Name: "tile", Method: http.MethodGet, Path: PathTile, Summary: "Read a hash tile",
		Doc:     "c2sp.org/tlog-tiles: <level>/<index>[.p/<width>], such as 0/x001/x234/067 or 0/000.p/17. Never changes.",
		Params:  []Param{inPath("path", schemaText, "0/000.p/3", "level, index and width, with their slashes")},
		Answers: tile("hashes of 32 bytes"), Problems: missing(), Public: true, Plain: true,
	}, {
		Name: "bundle", Method: http.MethodGet, Path: PathEntryTile, Summary: "Read a bundle of leaves",
		Doc:     "c2sp.org/tlog-tiles: <index>[.p/<width>], such as 000 or x001/067.p/17. Never changes; gzip where accepted.",
		Params:  []Param{inPath("path", schemaText, "000.p/3", "index and width, with their slashes")},
		Answers: tile("leaves, each behind its length in two bytes"), Problems: missing(), Public: true,
	}}
}

// selfRoutes are about the server itself.
func selfRoutes() []Route {
	document := tagged("OpenAPI 3.1", Schema{JSON: `{"type":"object"}`})
	document[0].Content[0].MediaType = MediaOpenAPI
	return []Route{{
		Name: "health", Method: http.MethodGet, Path: PathHealth, Summary: "Ask whether the process answers",
		Answers: ok("it does", of[Status]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "ready", Method: http.MethodGet, Path: PathReady, Summary: "Ask whether entries are taken",
		Answers: ok("they are", of[Status]()), Problems: []entry.Problem{entry.Malformed, entry.NotReady, entry.InsufficientStorage},
	}, {
		Name: "metrics", Method: http.MethodGet, Path: PathMetrics, Summary: "Read the metrics", Plain: true,
		Answers: []Response{{Status: http.StatusOK, Doc: "Prometheus text format", Content: []Content{content("text/plain", Schema{JSON: schemaText})}}},
	}, {
		Name: "openapi", Method: http.MethodGet, Path: PathDocument, Summary: "Read this document", Answers: document,
	}}
}
