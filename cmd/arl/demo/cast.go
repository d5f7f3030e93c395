package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// The principals.
const (
	planner    entry.Principal = "planner"
	researcher entry.Principal = "researcher"
	pricer     entry.Principal = "pricer"
	booker     entry.Principal = "booker"
	writer     entry.Principal = "writer"
	mailer     entry.Principal = "mailer"
	publisher  entry.Principal = "publisher" // starts late
	monitor    entry.Principal = "monitor"
	ann        entry.Principal = "ann" // approvers
	ben        entry.Principal = "ben"
)

// The workflows. The coordinator may repair the first workflow without a person. The second
// workflow needs approvals.
const (
	restock entry.WorkflowID = "restock"
	offer   entry.WorkflowID = "offer"
)

// agents returns the principals that have a process. The publisher starts when a fence is in place.
func agents() []entry.Principal {
	return []entry.Principal{planner, researcher, pricer, booker, writer, mailer, monitor}
}

// goods are the output of an execution: each execution sets some of the members.
type goods struct {
	BudgetCents  int            `json:"budget_cents,omitzero"`
	UnitCents    map[string]int `json:"unit_cents,omitempty"`
	Pieces       map[string]int `json:"pieces,omitempty"`
	City         string         `json:"city,omitempty"`
	People       int            `json:"people,omitzero"`
	CentsAPerson int            `json:"cents_a_person,omitzero"`
	TotalCents   int            `json:"total_cents,omitzero"`
	To           string         `json:"to,omitempty"`
	Text         string         `json:"text,omitempty"`
	Mails        int            `json:"mails,omitzero"`
}

// inputs are the received outputs, by execution.
type inputs map[entry.Ref]goods

// step is an execution of an agent's part. The effect determines what happens to the goods: a file
// of the agent (reversible), a booking (compensable), a mail (irrevocable). A step with sees is no
// execution: the agent checks the output of its parents.
type step struct {
	id      string
	wid     entry.WorkflowID
	parents []entry.Parent
	effect  entry.Effect
	planned bool             // the demo only plans the step, and never executes it
	after   entry.Ref        // execution that must be in the log before; empty: none
	record  entry.WorkflowID // workflow whose record must be in the log before; empty: none
	makes   func(p *player, in inputs) (goods, error)
	sees    func(p *player, in inputs) (*entry.Signal, error) // a nil signal: nothing is wrong
}

// The executions that other executions depend on.
const (
	list   entry.Ref = "planner#list"
	prices entry.Ref = "pricer#prices"
	order  entry.Ref = "booker#order"
	brief  entry.Ref = "planner#brief"
	facts  entry.Ref = "researcher#facts"
	quote  entry.Ref = "pricer#quote"
	hold   entry.Ref = "booker#hold"
	draft  entry.Ref = "writer#draft"
	send   entry.Ref = "mailer#send"
)

func hard(refs ...entry.Ref) (parents []entry.Parent) {
	for _, r := range refs {
		parents = append(parents, entry.Parent{Exec: r, Dep: entry.Hard})
	}
	return parents
}

// part is the steps of an agent, in this order.
func part(name entry.Principal) []step {
	switch name {
	case planner:
		return []step{
			{id: "list", wid: restock, effect: entry.EffectNone, makes: given(goods{BudgetCents: 10_000})},
			{id: "brief", wid: offer, effect: entry.EffectNone, record: restock, makes: given(goods{City: "Lisbon", People: 12})},
			{id: "digest", wid: offer, effect: entry.EffectNone, parents: []entry.Parent{{Exec: send, Dep: entry.Soft}}, after: "mailer#reminder", makes: (*player).digest},
		}
	case researcher:
		return []step{{id: "facts", wid: offer, effect: entry.EffectReversible, parents: hard(brief), makes: (*player).facts}}
	case pricer:
		return []step{
			{id: "prices", wid: restock, effect: entry.EffectReversible, parents: hard(list), makes: (*player).prices},
			{id: "quote", wid: offer, effect: entry.EffectReversible, parents: hard(brief, facts), makes: (*player).quote},
			{id: "recheck", wid: restock, parents: hard(prices, order), sees: (*player).recheck},
		}
	case booker:
		return []step{
			{id: "order", wid: restock, effect: entry.EffectCompensable, parents: hard(list, prices), makes: (*player).order},
			{id: "hold", wid: offer, effect: entry.EffectCompensable, parents: hard(brief, quote), makes: (*player).hold},
		}
	case writer:
		return []step{{id: "draft", wid: offer, effect: entry.EffectReversible, parents: hard(facts, quote), makes: (*player).draft}}
	case mailer:
		return []step{
			{id: "send", wid: offer, effect: entry.EffectIrrevocable, parents: hard(draft, hold), makes: (*player).letter},
			{id: "reminder", wid: offer, effect: entry.EffectIrrevocable, parents: hard(send), planned: true, makes: given(goods{To: "customer@example.org", Text: "A reminder"})},
		}
	case publisher:
		return []step{{id: "page", wid: offer, effect: entry.EffectReversible, parents: hard(draft), makes: (*player).letter}}
	case monitor:
		return []step{{id: "compare", wid: offer, parents: hard(facts, send, "planner#digest"), sees: (*player).compare}}
	}
	return nil
}

// feeds are the files of the suppliers.
func feeds() map[string]string {
	return map[string]string{
		"supplies.json": `{"screws": {"pieces": 100, "cents": 400}, "hinges": {"pieces": 1, "cents": 250}}`, // a pack
		"venue.txt":     "1.250,00",                                                                         // euros a person
	}
}

// packs is the supplier's feed: the number of pieces in a pack, and the price of the pack.
type packs map[string]struct {
	Pieces int `json:"pieces"`
	Cents  int `json:"cents"`
}

func (p *player) supplies() (s packs, err error) {
	text, err := p.feed("supplies.json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

func given(g goods) func(*player, inputs) (goods, error) {
	return func(*player, inputs) (goods, error) { return g, nil }
}

// prices has the first fault: it takes the price of a pack for the price of a piece.
func (p *player) prices(inputs) (goods, error) {
	g := goods{UnitCents: map[string]int{}}
	supplies, err := p.supplies()
	for item, pack := range supplies {
		g.UnitCents[item] = pack.Cents
	}
	return g, err
}

// recheck finds the pricer's fault after other agents have used the prices.
func (p *player) recheck(in inputs) (*entry.Signal, error) {
	supplies, err := p.supplies()
	for item, pack := range supplies {
		if in[prices].UnitCents[item]*pack.Pieces != pack.Cents {
			return &entry.Signal{Subject: prices, Class: "output", Code: "bad_arguments", Standing: entry.StandingExecutor,
				Effects: entry.EffectsComplete, ReplaySafety: entry.ReplaySafe}, nil
		}
	}
	return nil, err
}

func (*player) order(in inputs) (goods, error) {
	g := goods{Pieces: map[string]int{}}
	for item, cents := range in[prices].UnitCents {
		g.Pieces[item] = in[list].BudgetCents / len(in[prices].UnitCents) / cents
	}
	return g, nil
}

// facts has the second fault: it takes a decimal comma for a separator of thousands.
func (p *player) facts(inputs) (goods, error) {
	text, err := p.feed("venue.txt")
	if err != nil {
		return goods{}, err
	}
	euros, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	return goods{CentsAPerson: int(euros * 100)}, err
}

func (*player) quote(in inputs) (goods, error) {
	return goods{TotalCents: in[brief].People * in[facts].CentsAPerson}, nil
}

func (*player) hold(in inputs) (goods, error) {
	return goods{Pieces: map[string]int{"seats in " + in[brief].City: in[brief].People}}, nil
}

func (*player) draft(in inputs) (goods, error) {
	cents := in[quote].TotalCents
	return goods{To: "customer@example.org", Text: fmt.Sprintf("Your workshop: EUR %d.%02d", cents/100, cents%100)}, nil
}

func (*player) letter(in inputs) (goods, error) { return in[draft], nil }

func (p *player) digest(inputs) (goods, error) {
	sent, err := p.dir.sent()
	return goods{Mails: len(sent)}, err
}

// compare is the step of the monitor: it compares the customer's offer with the supplier's feed,
// and traces a difference back to the faulty execution.
func (p *player) compare(in inputs) (*entry.Signal, error) {
	text, err := p.feed("venue.txt")
	if err != nil {
		return nil, err
	}
	cents, err := strconv.Atoi(strings.NewReplacer(".", "", ",", "").Replace(text))
	if err != nil || in[facts].CentsAPerson == cents {
		return nil, err
	}
	sent, err := p.dir.sent()
	wrong := slices.IndexFunc(sent, func(m mail) bool { return m.Exec == send })
	if err != nil || wrong < 0 {
		return nil, err
	}
	return &entry.Signal{Subject: facts, Class: "output", Code: "ungrounded", Standing: entry.StandingMonitor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe,
		Evidence: []entry.Evidence{{Digest: entry.DigestOf([]byte(sent[wrong].Text))}, {Digest: entry.DigestOf([]byte(text))}}}, nil
}
