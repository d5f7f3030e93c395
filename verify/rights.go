package verify

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// rights judges the entries (steps 5 to 8). What is false is false under any
// head. What counts, as a link or as checked, stands under heads that are proven
// to be of one log: an enrolment in one history lets no key into another.
func (v *run) rights(Material) error {
	slices.SortStableFunc(v.proven, func(a, b proven) int { return cmp.Compare(a.Index, b.Index) })
	all, err := v.judge(v.proven)
	if err != nil {
		return err
	}
	joined := slices.DeleteFunc(slices.Clone(v.proven), func(p proven) bool { return !v.joined[p.head.Size] })
	if len(joined) < len(v.proven) {
		if all, err = v.judge(joined); err != nil {
			return err
		}
	}
	v.chain, v.out.Entries = all.chain, all.entries
	maps.Copy(v.count, all.count)
	v.out.Missing = append(v.out.Missing, all.missing...)
	v.judgeUnconnected()
	return nil
}

// judgeUnconnected judges the entries that are proven only under heads that nothing
// connects with the newest head. All other entries have been judged before.
func (v *run) judgeUnconnected() {
	count := len(v.out.Entries)
	judged := v.out.Entries
	for i, p := range v.proven { // by index
		_, there := slices.BinarySearchFunc(judged, p.Index, byIndex)
		if !there && (i == 0 || v.proven[i-1].Index != p.Index) {
			v.out.Entries = append(v.out.Entries, p.Entry)
		}
	}
	if count = len(v.out.Entries) - count; count > 0 {
		slices.SortFunc(v.out.Entries, func(a, b Entry) int { return cmp.Compare(a.Index, b.Index) })
		v.missing(StepSigner, "the consistency proofs that are missing", "signer and signature of %s under tree heads that nothing connects with the newest", entriesOf(count))
	}
}

func byIndex(e Entry, index uint64) int { return cmp.Compare(e.Index, index) }

func entriesOf[T int | uint64](count T) string {
	if count == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", count)
}

// judging is a look at entries in the order of the log, each judged by the chain
// as of its index.
type judging struct {
	root    *Root
	given   given
	chain   *Chain
	entries []Entry
	count   map[Step]int
	missing []Gap
	left    []unchecked // in the order of the log
}

// unchecked is a signature that is left to check, and its key.
type unchecked struct {
	*entry.Entry
	index uint64
	key   entry.PublicKey
}

// judge judges entries in the order of the log. Of several that fail, the error is about the first.
func (v *run) judge(list []proven) (*judging, error) {
	j := &judging{root: &v.root, given: newGiven(list), chain: NewChain(), count: map[Step]int{}}
	failed := j.walk(list)
	if err := j.signatures(); err != nil { // all of them stand before the entry that failed
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	if len(list) > 1 { // one alone is compared with nothing
		j.count[StepOrder] = len(j.entries)
	}
	if len(list) > 0 && j.chain.policy == nil {
		j.gap("the receipts of the genesis policy, entry 0, and of "+enrolments(j.entries),
			"signer and signature of %s: no policy is given that says which keys are valid", entriesOf(len(j.entries)))
	}
	return j, nil
}

// walk does the steps for entries but for the signatures of those that let no key in: these are
// left.
func (j *judging) walk(list []proven) error {
	for i, p := range list {
		if i > 0 {
			if err := checkOrder(list[i-1], p); err != nil {
				return err
			}
			if list[i-1].Index == p.Index { // a second receipt of the same entry
				continue
			}
		}
		if p.Header.Aud != j.root.Origin {
			return &StepError{Step: StepAudience, What: entryName(p.Index),
				Cause: entry.Refuse(entry.WrongAudience, "aud", "%q, want %q", p.Header.Aud, j.root.Origin)}
		}
		j.count[StepAudience]++
		signed, err := j.right(p)
		if err != nil {
			return err
		}
		p.Signed = signed
		j.entries = append(j.entries, p.Entry)
	}
	return nil
}

// signatures checks the signatures that the walk has left, on all processors. They take most of the
// time of a long history.
func (j *judging) signatures() error {
	verdicts := make([]error, len(j.left))
	InParallel(len(j.left), func(i int) {
		u := &j.left[i]
		if !u.SignatureChecked { // not when it was judged before: a key id is of one key only
			verdicts[i] = j.signature(u.Entry, u.key)
			u.SignatureChecked = verdicts[i] == nil
		}
	})
	for i, err := range verdicts {
		if err != nil {
			return &StepError{Step: StepSignature, What: entryName(j.left[i].index), Cause: err}
		}
	}
	return nil
}

// signature checks one signature. The refusal is the same, whoever checks.
func (j *judging) signature(e *entry.Entry, key entry.PublicKey) error {
	if j.root.CheckSignature(key, e.PAE(), e.Sig) != nil {
		return badSignature(key)
	}
	return nil
}

// enrolments names the agent entries that let the signers of entries in.
func enrolments(list []Entry) string {
	var names []string
	for _, e := range list {
		if name := string(e.Header.Iss); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 3 {
		names = append(names[:3], "others")
	}
	return fmt.Sprintf("the agent entries that enrol %s (arl log proof --index N writes the receipt of entry N with all of these)", strings.Join(names, ", "))
}

func (j *judging) gap(give, format string, args ...any) {
	j.missing = append(j.missing, Gap{StepSigner, fmt.Sprintf(format, args...), give})
}

// checkOrder compares two entries that follow each other in the material (step 5).
func checkOrder(a, b proven) error {
	switch {
	case a.Index == b.Index && a.hash != b.hash:
		return &ForkError{First: a.head.Note, Second: b.head.Note, Detail: fmt.Sprintf("two leaves at index %d: %s and %s", a.Index, a.hash, b.hash)}
	case a.RegisteredAt > b.RegisteredAt:
		return &StepError{Step: StepOrder, What: entryName(b.Index),
			Cause: fmt.Errorf("registered_at %d, earlier than %d of entry %d", b.RegisteredAt, a.RegisteredAt, a.Index)}
	}
	return nil
}

// right does steps 7 and 8 for an entry and, if it is a policy or agent entry,
// takes it up into the chain. The signature of another entry is left. It reports false if a key or
// a link is missing.
func (j *judging) right(p proven) (signed bool, err error) {
	fail := func(step Step, cause error) (bool, error) {
		return false, &StepError{Step: step, What: entryName(p.Index), Cause: cause}
	}
	if p.Index == 0 && p.hash != j.root.Genesis {
		return fail(StepSigner, fmt.Errorf("leaf hash %s is not the pinned genesis %s", p.hash, j.root.Genesis))
	}
	if j.chain.policy == nil && p.Index != 0 {
		return false, nil // said once, in judge
	}
	name := fmt.Sprintf("%s (%s)", entryName(p.Index), p.Kind)
	links := p.Kind == entry.KindPolicy || p.Kind == entry.KindAgent
	if gap, ok := j.given.gap(j.chain.inForce.Index, p.Index); ok && links {
		j.gap(fmt.Sprintf("the receipt of the policy at %d", gap), "%s: its place in the chain, and with it what it lets in", name)
		return false, nil
	}
	signer, err := j.chain.Signer(p.Entry.Entry)
	if j.mayLackReceipts(p, err) {
		j.gap(fmt.Sprintf("the receipts of the policies and of the agent entry that let %s sign for %s", p.KeyID, p.Header.Iss),
			"%s: signature of %s: by what is given, %s", name, p.KeyID, refusalText(err))
		return false, nil
	}
	if err != nil {
		return fail(StepSigner, fmt.Errorf("by the policies and agents given: %w", err))
	}
	if !links {
		j.left = append(j.left, unchecked{p.Entry.Entry, p.Index, signer.Key})
	} else {
		if err := j.signature(p.Entry.Entry, signer.Key); err != nil { // before the entry lets a key in
			return fail(StepSignature, err)
		}
		err := j.chain.Admit(p.Entry.Entry, p.Index)
		if j.mayLackReceipts(p, err) {
			j.gap("the receipts of the policies and agent entries before it", "%s: its place in the chain, and with it what it lets in: by what is given, %s", name, refusalText(err))
			return false, nil
		}
		if err != nil {
			return fail(StepSigner, fmt.Errorf("by the policies and agents given: %w", err))
		}
		j.chain.Apply(p.Entry.Entry, p.Index, p.RegisteredAt)
		p.SignatureChecked = true
	}
	j.count[StepSigner]++
	j.count[StepSignature]++
	return true, nil
}

// refusalText is the text of a refusal, without the remedy for the issuer.
func refusalText(err error) string {
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return refusal.Detail
	}
	return err.Error()
}
