package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// formMax bounds the form of an act, in bytes.
const formMax = 1 << 16

// actPage is what an order about an incident or a task would do, and the form that signs
// it.
type actPage struct {
	Verb        act.Verb
	Incident    *api.Incident // nil: it is about a task
	Task        *api.Task     // nil: it is about an incident
	About       string        // the incident or the task, in words
	Back        string        // link to its page
	Consequence string
	Follows     string
	Payloads    []string // what is signed, indented; empty: there is none yet
	Entries     int      // how many are signed
	Fixed       string   // what stays of the payloads until they are signed
	Silent      []entry.Ref

	Plan    *api.Plan // nil: the order rests on no plan
	Picture *picture
	Lanes   []lane
	Members []memberRow

	Alarm  string // why nothing was signed
	Cannot string // why nobody can do this now; empty: somebody can
	Form   orderForm
	Fields formFields
	Keys   []keyRow
	Shown  string // what the consequence and the plan are, as one value
	Action string // where the form is sent

	at    Standing
	draft *act.Draft
	fixed *act.Fixed
}

// formFields says which fields the form of a verb has.
type formFields struct{ Reason, Hours, LeaveOut, Judge, Members, Agent bool }

// keyRow is a key that could sign, and why it may not.
type keyRow struct {
	signer
	Why     string
	May     string // that it may, and what its principal has answered already; empty: Why says why not
	Checked bool
}

// orderForm is a form as a person filled it in.
type orderForm struct {
	Reason   string
	Hours    string
	Agent    string
	KeyID    string
	LeaveOut map[uint64]string // signals to leave out, and why
	Judged   map[uint64]string // signals that the signer found true or false
	Released []entry.Ref       // that can be released
	Release  map[entry.Ref]bool
}

// fieldsOf says which fields the form of a verb has.
func fieldsOf(verb act.Verb, task bool) formFields {
	if task {
		return formFields{Reason: true, Agent: verb != act.Cancel}
	}
	return formFields{Reason: verb.NeedsReason(), Hours: verb == act.Approve || verb == act.Refuse, LeaveOut: verb == act.Escalate,
		Judge: verb == act.Deny, Members: verb == act.Release}
}

// The values of the field that judges a signal.
const (
	foundTrue  = "corroborated"
	foundFalse = "false"
)

// readOrder reads the fields of a form. A field that is not there has its default.
func readOrder(q *http.Request, values url.Values) (*act.Order, orderForm, error) {
	o := &act.Order{Verb: act.Verb(q.PathValue("verb")), Task: entry.Ref(q.PathValue("task")), Agent: entry.Principal(values.Get("agent")),
		Reason: strings.TrimSpace(values.Get("reason")), Hours: act.DefaultHours}
	f := orderForm{Reason: o.Reason, Agent: string(o.Agent), KeyID: values.Get("key"), LeaveOut: map[uint64]string{}, Judged: map[uint64]string{}, Release: map[entry.Ref]bool{}}
	verbs := act.TaskVerbs()
	if o.Task == "" {
		id, err := number(q, "id")
		if err != nil {
			return nil, f, err
		}
		o.Incident, verbs = id, act.Verbs()
	}
	if !slices.Contains(verbs, o.Verb) {
		return nil, f, entry.Refuse(entry.NotFound, "verb", "%.40q is not what can be done here", o.Verb).WithRemedy("the page of the incident or the task links what can be done")
	}
	f.Hours = cmp.Or(values.Get("hours"), strconv.Itoa(act.DefaultHours))
	hours, err := strconv.ParseInt(f.Hours, 10, 32)
	if err != nil || hours < 1 {
		return nil, f, entry.Refuse(entry.Malformed, "hours", "%.40q is not a number of hours", f.Hours).WithRemedy("give a whole number from 1 on")
	}
	o.Hours = hours
	for name, value := range values {
		kind, text, _ := strings.Cut(name, "-")
		index, err := strconv.ParseUint(text, 10, 63)
		if err != nil || value[0] == "" {
			continue
		}
		switch kind {
		case "out":
			f.LeaveOut[index] = value[0]
			o.Dismissed = append(o.Dismissed, entry.Dismissal{Index: index, Reason: value[0]})
		case "found":
			f.Judged[index] = value[0]
			switch value[0] {
			case foundTrue:
				o.Corroborated = append(o.Corroborated, index)
			case foundFalse:
				o.False = append(o.False, index)
			}
		}
	}
	slices.SortFunc(o.Dismissed, func(a, b entry.Dismissal) int { return cmp.Compare(a.Index, b.Index) })
	slices.Sort(o.Corroborated)
	slices.Sort(o.False)
	for _, member := range values["member"] {
		f.Release[entry.Ref(member)] = true
		o.Members = append(o.Members, entry.Ref(member))
	}
	return o, f, nil
}

// known returns the log as the source shows it.
func (k *Console) known(state *coord.State, at Standing) *act.Log {
	return &act.Log{Origin: k.cfg.Origin, State: state, Now: at.Now, Rules: &k.rules}
}

// showAct is GET /incidents/{id}/act/{verb} or /tasks/{task}/act/{verb}: the form. What stands in
// the query is filled in.
func (k *Console) showAct(q *http.Request) (*page, error) {
	body, err := k.prepare(q, q.URL.Query())
	if err != nil {
		return nil, err
	}
	return k.actPage(body), nil
}

// actPage returns the page of a form.
func (k *Console) actPage(body *actPage) *page {
	name, section := string(body.Verb), "Incidents"
	var command string
	switch {
	case body.Task != nil:
		section = "Tasks"
		command = "arl task " + name + " " + words.Quoted(string(body.Task.Task))
	case body.Verb == act.Refuse:
		command = "arl incident approve " + decimal(body.Incident.ID) + " --refuse"
	case body.Verb == act.Acknowledge:
		command = "arl escalation acknowledge " + decimal(body.Incident.ID)
	default:
		command = "arl incident " + name + " " + decimal(body.Incident.ID)
	}
	if body.Fields.Reason {
		command += " --reason …"
	}
	return &page{name: "act", Title: strings.ToUpper(name[:1]) + name[1:] + ": " + body.About, Command: command, Section: section, Body: body, At: body.at}
}

// prepare makes the form of a request.
func (k *Console) prepare(q *http.Request, values url.Values) (*actPage, error) {
	order, form, err := readOrder(q, values)
	if err != nil {
		return nil, err
	}
	body := &actPage{Verb: order.Verb, Form: form, Fields: fieldsOf(order.Verb, order.Task != "")}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		body.at = at
		l := k.known(state, at)
		l.Fixed = readFixed(values.Get("fixed"), l)
		if err = k.fill(body, order, l); err == nil && body.draft != nil && body.draft.Plan != nil {
			view.AddParents(state, body.draft.Plan)
			body.drawPlan(k, body.draft.Plan)
		}
	})
	return body, err
}

// fill drafts the order, and shows what it does and who may sign it.
func (k *Console) fill(body *actPage, order *act.Order, l *act.Log) error {
	if err := k.fillSubject(body, order, l); err != nil {
		return err
	}
	body.Action = actLinkTo(body.Back, body.Verb)
	if l.Fixed == nil {
		l.Fix(0)
	}
	signers := k.signers(l)
	by := bySigner(signers, body.Form.KeyID)
	draft, err := l.Suppose(order, by.Principal)
	if err != nil {
		body.Cannot = err.Error()
		return nil //nolint:nilerr // the page says so
	}
	body.draft, body.Consequence, body.Entries, body.Silent = draft, draft.Consequence(), len(draft.Bodies), draft.Silent()
	if len(l.Fixed.JTIs) == 0 {
		l.Fix(min(len(draft.Bodies), payloadsMax))
	}
	body.fixed = l.Fixed
	body.Fixed = fmt.Sprintf("%d %d %s", l.Fixed.At, l.Fixed.Pin, strings.Join(l.Fixed.JTIs, " "))
	if body.Fields.Agent && !draft.Unnamed {
		body.Form.Agent = string(draft.Order.Agent) // the person sees who gets the task
	}
	return k.fillKeys(body, l, signers, by)
}

// fillKeys shows which keys may sign the draft. Where the form names no key, the first one that may
// is chosen, of a principal that has not answered the proposal if there is one: a second answer of
// a principal takes the place of its first, and brings a quorum no nearer.
func (k *Console) fillKeys(body *actPage, l *act.Log, signers []signer, by signer) error {
	chosen := body.Form.KeyID != ""
	for _, s := range signers {
		row, given := keyRow{signer: s}, body.answer(s.Principal)
		if err := l.May(body.draft, s.Principal, s.ID); err != nil {
			row.Why = err.Error()
		} else if row.May = "may" + given; !chosen && (given == "" || by.Principal == "") {
			by, chosen = s, given == ""
		}
		body.Keys = append(body.Keys, row)
	}
	for i := range body.Keys {
		body.Keys[i].Checked = body.Keys[i].ID == by.ID
	}
	if by.Principal == "" {
		return nil // there is nobody who signs
	}
	body.Follows = body.draft.Follows(by.Principal)
	payloads, err := l.Payloads(body.draft, by.Principal)
	if err != nil {
		return err
	}
	for _, payload := range payloads {
		body.Payloads = append(body.Payloads, indented(payload))
	}
	body.Shown, err = shown(l, body.draft, by)
	return err
}

// answer says which answer to the proposal a principal has given, in a draft of an answer; empty:
// none that counts.
func (body *actPage) answer(p entry.Principal) string {
	if body.Incident == nil || body.Incident.Proposal == nil || body.Verb != act.Approve && body.Verb != act.Refuse {
		return ""
	}
	given := func(list []api.Answer, did string) string {
		for _, a := range list {
			if a.Principal == p {
				return fmt.Sprintf(", and has %s by entry %d: another answer takes its place", did, a.Index)
			}
		}
		return ""
	}
	return given(body.Incident.Proposal.Approve, "approved") + given(body.Incident.Proposal.Refuse, "refused")
}

// fillSubject finds what the order is about, and what the form lets a person choose.
func (k *Console) fillSubject(body *actPage, order *act.Order, l *act.Log) error {
	if order.Task != "" {
		t, err := l.Task(order.Task)
		if err != nil {
			return err
		}
		body.Task, body.About, body.Back = t, "task "+string(t.Task), k.link("/tasks", t.Task)
		return nil
	}
	v, ok := l.State.Incident(order.Incident, l.Now)
	if !ok {
		return entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", order.Incident).WithRemedy("the page of incidents lists them")
	}
	body.Incident, body.About, body.Back = &v, "incident "+decimal(v.ID), k.link("/incidents", v.ID)
	if body.Fields.Members {
		body.Form.Released = l.Releasable(order.Incident)
	}
	return nil
}

// drawPlan shows the plan as the page of the incident does.
func (body *actPage) drawPlan(k *Console, plan *api.Plan) {
	as := &incidentPage{Plan: plan}
	as.draw(k, part{})
	body.Plan, body.Picture, body.Lanes = plan, as.Picture, as.Lanes
	body.Members, _ = k.members(plan, 0)
}

// bySigner returns the key that a form names, or the first one.
func bySigner(signers []signer, keyID string) signer {
	for _, s := range signers {
		if s.ID == keyID {
			return s
		}
	}
	if len(signers) == 0 {
		return signer{}
	}
	return signers[0]
}

// actLink is what can be done about an incident, or why not.
type actLink struct {
	Verb act.Verb
	Link string
	Why  string // why no key at hand may; empty: one may
}

// acts returns what can be done about the incident or the task of an order with the keys
// at hand. back is the link to its page.
func (k *Console) acts(l *act.Log, about act.Order, back string) (list []actLink) {
	if k.cfg.Signing == nil {
		return nil
	}
	var keys []act.Key
	for _, s := range k.signers(l) {
		keys = append(keys, act.Key{ID: s.ID, Principal: s.Principal})
	}
	for _, offer := range l.Offers(about, keys) {
		link := actLink{Verb: offer.Verb, Link: actLinkTo(back, offer.Verb), Why: "no key is at hand: start arl console with --key"}
		for _, err := range offer.MayNot {
			if link.Why = ""; err == nil {
				break
			}
			link.Why = err.Error()
		}
		list = append(list, link)
	}
	return list
}

func actLinkTo(page string, verb act.Verb) string { return page + "/act/" + string(verb) }
