package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	publisher  entry.Principal = "publisher" // comes late
	monitor    entry.Principal = "monitor"
	ann        entry.Principal = "ann" // approvers
	ben        entry.Principal = "ben"
)

// The workflows: the first goes wrong in a way that the coordinator may put
// right alone, the second needs people.
const (
	restock entry.WorkflowID = "restock"
	offer   entry.WorkflowID = "offer"
)

// agents are the principals with a process; the publisher is started when a
// fence stands.
func agents() []entry.Principal {
	return []entry.Principal{planner, researcher, pricer, booker, writer, mailer, monitor}
}

// step is an execution that an agent is to do.
type step struct {
	id      string
	wid     entry.WorkflowID
	parents []entry.Parent
	effect  entry.Effect
	planned bool             // it is only planned: its time does not come here
	after   []entry.Ref      // that are in the log before
	record  entry.WorkflowID // whose record is in the log before; empty: none
	// do does it, and returns what is handed on: JSON.
	do func(p *player, in inputs) (any, error)
}

// look is when an agent looks at what it, or others, have done.
type look struct {
	wid   entry.WorkflowID
	after []entry.Ref
	// see returns a signal if something is wrong.
	see func(p *player, in inputs) (*entry.Signal, error)
}

// inputs are what was handed on, by execution.
type inputs map[entry.Ref][]byte

func ref(p entry.Principal, id string) entry.Ref { return entry.NewRef(p, id) }

func hard(refs ...entry.Ref) (parents []entry.Parent) {
	for _, r := range refs {
		parents = append(parents, entry.Parent{Exec: r, Dep: entry.Hard})
	}
	return parents
}

// part is what an agent does, in this order.
func part(name entry.Principal) (steps []step, looks []look) {
	facts, quote, hold, draft, send := ref(researcher, "facts"), ref(pricer, "quote"), ref(booker, "hold"), ref(writer, "draft"), ref(mailer, "send")
	brief, reminder := ref(planner, "brief"), ref(mailer, "reminder")
	switch name {
	case planner:
		return []step{
			{id: "list", wid: restock, effect: entry.EffectNone, do: (*player).list},
			{id: "brief", wid: offer, effect: entry.EffectNone, record: restock, do: (*player).brief},
			{id: "digest", wid: offer, effect: entry.EffectNone, parents: []entry.Parent{{Exec: send, Dep: entry.Soft}}, after: []entry.Ref{reminder}, do: (*player).digest},
		}, nil
	case researcher:
		return []step{{id: "facts", wid: offer, effect: entry.EffectReversible, parents: hard(brief), do: (*player).facts}}, nil
	case pricer:
		return []step{
				{id: "prices", wid: restock, effect: entry.EffectReversible, parents: hard(ref(planner, "list")), do: (*player).prices},
				{id: "quote", wid: offer, effect: entry.EffectReversible, parents: hard(brief, facts), do: (*player).quote},
			}, []look{
				{wid: restock, after: []entry.Ref{ref(booker, "order")}, see: (*player).recheck},
			}
	case booker:
		return []step{
			{id: "order", wid: restock, effect: entry.EffectCompensable, parents: hard(ref(planner, "list"), ref(pricer, "prices")), do: (*player).order},
			{id: "hold", wid: offer, effect: entry.EffectCompensable, parents: hard(brief, quote), do: (*player).hold},
		}, nil
	case writer:
		return []step{{id: "draft", wid: offer, effect: entry.EffectReversible, parents: hard(facts, quote), do: (*player).draft}}, nil
	case mailer:
		return []step{
			{id: "send", wid: offer, effect: entry.EffectIrrevocable, parents: hard(draft, hold), do: (*player).send},
			{id: "reminder", wid: offer, effect: entry.EffectIrrevocable, parents: hard(send), planned: true, do: (*player).queue},
		}, nil
	case publisher:
		return []step{{id: "page", wid: offer, effect: entry.EffectReversible, parents: hard(draft), do: (*player).publish}}, nil
	case monitor:
		return nil, []look{{wid: offer, after: []entry.Ref{facts, send, ref(planner, "digest")}, see: (*player).compare}}
	}
	return nil, nil
}

// feeds are what suppliers say, by file.
func feeds() map[string]string {
	return map[string]string{
		"supplies.csv": "screws;100;400\nhinges;1;250\n", // item; pieces in a pack; cents for a pack
		"venue.txt":    "1.250,00",                       // euros a person
	}
}

// handed are what agents hand on.
type (
	shoppingList struct {
		BudgetCents int `json:"budget_cents"`
	}
	priceList struct {
		UnitCents map[string]int `json:"unit_cents"`
	}
	bookings struct {
		Pieces map[string]int `json:"pieces"`
	}
	briefing struct {
		City   string `json:"city"`
		People int    `json:"people"`
	}
	venueFacts struct {
		CentsAPerson int `json:"cents_a_person"`
	}
	quotation struct {
		TotalCents int `json:"total_cents"`
	}
	letter struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}
	reviewed struct {
		Mails int `json:"mails"`
	}
)

// supply is a line of the supplier's feed.
type supply struct {
	item              string
	pieces, packCents int
}

func (p *player) supplies() (list []supply, err error) {
	text, err := p.feed("supplies.csv")
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ";")
		if len(fields) != 3 {
			return nil, fmt.Errorf("demo: feed: %q: want three fields", line)
		}
		s := supply{item: fields[0]}
		if s.pieces, err = strconv.Atoi(fields[1]); err == nil {
			s.packCents, err = strconv.Atoi(fields[2])
		}
		if err != nil {
			return nil, fmt.Errorf("demo: feed: %w", err)
		}
		list = append(list, s)
	}
	return list, err
}

func (*player) list(inputs) (any, error) { return shoppingList{BudgetCents: 10_000}, nil }

// prices has the first fault: the price of a pack is taken for that of a piece.
func (p *player) prices(inputs) (any, error) {
	supplies, err := p.supplies()
	if err != nil {
		return nil, err
	}
	prices := priceList{map[string]int{}}
	for _, s := range supplies {
		prices.UnitCents[s.item] = s.packCents
	}
	return prices, p.rows().setPrices(restock, prices.UnitCents)
}

// recheck is how the pricer finds its fault, when others have used the prices.
func (p *player) recheck(in inputs) (*entry.Signal, error) {
	supplies, err := p.supplies()
	if err != nil {
		return nil, err
	}
	prices, err := p.rows().prices(restock)
	if err != nil {
		return nil, err
	}
	for _, s := range supplies {
		if prices[s.item]*s.pieces != s.packCents {
			return &entry.Signal{Subject: ref(pricer, "prices"), Class: "output", Code: "bad_arguments", Standing: entry.StandingExecutor,
				Effects: entry.EffectsComplete, ReplaySafety: entry.ReplaySafe}, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is wrong
}

func (p *player) order(in inputs) (any, error) {
	var list shoppingList
	var prices priceList
	if err := in.read(ref(planner, "list"), &list, ref(pricer, "prices"), &prices); err != nil {
		return nil, err
	}
	b := bookings{map[string]int{}}
	for item, cents := range prices.UnitCents {
		b.Pieces[item] = list.BudgetCents / len(prices.UnitCents) / cents
	}
	return b, p.rows().book(ref(booker, "order"), b.Pieces)
}

func (*player) brief(inputs) (any, error) { return briefing{City: "Lisbon", People: 12}, nil }

// facts has the second fault: a comma taken for a separator of thousands, and so
// the point for the decimal one.
func (p *player) facts(inputs) (any, error) {
	text, err := p.feed("venue.txt")
	if err != nil {
		return nil, err
	}
	euros, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return nil, err
	}
	f := venueFacts{CentsAPerson: int(euros * 100)}
	return f, p.files().set(offer, "facts.json", fmt.Sprintf("{\"cents_a_person\": %d}\n", f.CentsAPerson))
}

func (p *player) quote(in inputs) (any, error) {
	var b briefing
	var f venueFacts
	if err := in.read(ref(planner, "brief"), &b, ref(researcher, "facts"), &f); err != nil {
		return nil, err
	}
	q := quotation{TotalCents: b.People * f.CentsAPerson}
	return q, p.rows().setPrices(offer, map[string]int{b.City: q.TotalCents})
}

func (p *player) hold(in inputs) (any, error) {
	var b briefing
	if err := in.read(ref(planner, "brief"), &b); err != nil {
		return nil, err
	}
	seats := bookings{map[string]int{"seats in " + b.City: b.People}}
	return seats, p.rows().book(ref(booker, "hold"), seats.Pieces)
}

func (p *player) draft(in inputs) (any, error) {
	var q quotation
	if err := in.read(ref(pricer, "quote"), &q); err != nil {
		return nil, err
	}
	l := letter{To: "customer@example.org", Text: "Your workshop: " + euros(q.TotalCents)}
	return l, p.files().set(offer, "letter.txt", l.Text+"\n")
}

func euros(cents int) string { return fmt.Sprintf("EUR %d.%02d", cents/100, cents%100) }

func (p *player) send(in inputs) (any, error) {
	var l letter
	if err := in.read(ref(writer, "draft"), &l); err != nil {
		return nil, err
	}
	return l, p.post(mail{Exec: ref(mailer, "send"), To: l.To, Text: l.Text})
}

// queue puts a mail where it waits for its day.
func (p *player) queue(inputs) (any, error) {
	return nil, writeJSON(p.dir.queued("reminder"), mail{Exec: ref(mailer, "reminder"), To: "customer@example.org", Text: "A reminder"})
}

func (p *player) digest(inputs) (any, error) {
	sent, err := p.sent()
	return reviewed{len(sent)}, err
}

func (p *player) publish(in inputs) (any, error) {
	var l letter
	if err := in.read(ref(writer, "draft"), &l); err != nil {
		return nil, err
	}
	return l, p.files().set(offer, "page.html", l.Text)
}

// compare is the monitor's: what the customer was told against what the supplier
// says, and back to where it went wrong.
func (p *player) compare(in inputs) (*entry.Signal, error) {
	var f venueFacts
	if err := in.read(ref(researcher, "facts"), &f); err != nil {
		return nil, err
	}
	text, err := p.feed("venue.txt")
	if err != nil {
		return nil, err
	}
	cents, err := strconv.Atoi(strings.NewReplacer(".", "", ",", "").Replace(text))
	if err != nil || f.CentsAPerson == cents {
		return nil, err
	}
	sent, err := p.sent()
	wrong := slices.IndexFunc(sent, func(m mail) bool { return m.Exec == ref(mailer, "send") })
	if err != nil || wrong < 0 {
		return nil, err
	}
	return &entry.Signal{Subject: ref(researcher, "facts"), Class: "output", Code: "ungrounded", Standing: entry.StandingMonitor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe,
		Evidence: []entry.Evidence{{Digest: entry.DigestOf([]byte(sent[wrong].Text))}, {Digest: entry.DigestOf([]byte(text))}}}, nil
}
