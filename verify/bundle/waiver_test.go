package bundle_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// withEmergency is the policy of three witnesses, with an emergency group of two of
// three approvers.
func withEmergency() string {
	return testlog.WitnessPolicy() + witnessLines("anna", "bert", "carl") + "group emergency 2 anna bert carl\n"
}

// otherWitnesses is a witness policy of three other witnesses.
func otherWitnesses() string {
	return witnessLines("v1", "v2", "v3") + "group g 2 v1 v2 v3\nquorum g\n"
}

func witnessLines(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		_, vkey := testlog.WitnessKey(name)
		fmt.Fprintf(&b, "witness %s %s\n", name, vkey)
	}
	return b.String()
}

// follows has the genesis name witnesses, and has a policy for each further text follow
// behind the decision, signed by its authority.
func follows(first string, next ...string) func(w *world) {
	return func(w *world) {
		before("outcome", func(w *world) {
			for _, text := range next {
				p, previous := w.policyOf("authority"), w.refTo("policy")
				p.Previous, p.Witnesses = &previous, text
				w.at["policy before"] = w.at["policy"]
				w.put("policy", "authority", p)
			}
		})(w)
		w.hooks["policy"] = func(body entry.Body) {
			if p, ok := body.(*entry.Policy); ok && p.Previous == nil {
				p.Witnesses = first
			}
		}
	}
}

// waiverCases are of WIT-6: the witnesses of the policy before are down, and its emergency
// group has cosigned.
func waiverCases() []bundleCase {
	change := with("policy before", "policy")
	return []bundleCase{
		{name: "good-waived", desc: "the emergency group has cosigned the head that brings a policy without witnesses", scene: automatic,
			prepare: follows(withEmergency(), ""), change: all(change, cosign(60, "anna", "carl"))},
		{name: "good-waived-for-others", desc: "the emergency group and the new quorum have cosigned the head that brings a policy with other witnesses", scene: automatic,
			prepare: follows(withEmergency(), otherWitnesses()), change: all(change, cosign(60, "anna", "carl", "v1", "v2"))},
		{name: "good-waived-in-two-steps", desc: "two policies follow, the last of which has other witnesses", scene: automatic,
			prepare: follows(withEmergency(), withEmergency(), otherWitnesses()), change: all(change, cosign(60, "bert", "carl", "v1", "v2"))},
		{name: "waived-without-policy", desc: "the emergency group has cosigned a head that brings no policy", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = withEmergency() }), change: cosign(60, "anna", "bert", "carl"), want: "AGT-1"},
		{name: "waived-for-the-same", desc: "the emergency group has cosigned a head that brings a policy with the same witnesses", scene: automatic,
			prepare: follows(withEmergency(), withEmergency()), change: all(change, cosign(60, "anna", "bert", "carl")), want: "AGT-1"},
		{name: "waived-for-the-same-again", desc: "a policy with other witnesses was followed by one with the same", scene: automatic,
			prepare: follows(withEmergency(), otherWitnesses(), withEmergency()), change: all(change, cosign(60, "anna", "bert", "carl", "v1", "v2")), want: "AGT-1"},
		{name: "waived-left-out", desc: "the carrier leaves the policy out for which the emergency group has cosigned", scene: automatic,
			prepare: follows(withEmergency(), ""), change: cosign(60, "anna", "bert"), want: "AGT-1"},
		{name: "waived-by-the-ledger", desc: "the ledger and the policy's authority alone name other witnesses, who have cosigned", scene: automatic,
			prepare: follows(withEmergency(), otherWitnesses()), change: all(change, cosign(60, "v1", "v2", "v3")), want: "AGT-1"},
		{name: "waived-by-none", desc: "the ledger and the policy's authority alone name no witnesses any more", scene: automatic,
			prepare: follows(withEmergency(), ""), change: change, want: "AGT-1"},
		{name: "waived-by-too-few", desc: "one of three of the emergency group, two are needed", scene: automatic,
			prepare: follows(withEmergency(), ""), change: all(change, cosign(60, "anna", "anna")), want: "AGT-1"},
		{name: "waived-by-a-forger", desc: "a cosignature of the emergency group is by another key", scene: automatic,
			prepare: follows(withEmergency(), ""), change: all(change, cosign(60, "anna", "bert forged")), want: "AGT-1"},
		{name: "waived-long-ago", desc: "the emergency group cosigned longer ago than the policy before allows", scene: automatic,
			prepare: follows(withEmergency(), ""), change: all(change, cosign(601, "anna", "bert")), want: "AGT-1"},
		{name: "waived-without-the-new", desc: "the emergency group has cosigned, and the witnesses of the policy that follows have not", scene: automatic,
			prepare: follows(withEmergency(), otherWitnesses()), change: all(change, cosign(60, "anna", "bert", "v1")), want: "AGT-1"},
		{name: "waived-by-a-group-of-the-new", desc: "only the policy that follows has an emergency group, which has cosigned", scene: automatic,
			prepare: follows(testlog.WitnessPolicy(), withEmergency()), change: all(change, cosign(60, "anna", "bert", "carl")), want: "AGT-1"},
		{name: "waived-by-a-witness", desc: "a witness is named emergency, and is no group", scene: automatic,
			prepare: follows(testlog.WitnessPolicy()+witnessLines("emergency"), ""), change: all(change, cosign(60, "emergency")), want: "AGT-1"},
		{name: "waived-but-pinned", desc: "the root pins the witnesses, which no policy can waive", scene: automatic,
			prepare: follows(withEmergency(), ""), change: all(change, cosign(60, "anna", "bert")),
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Root.Witnesses = withEmergency()
				return a
			}, want: "AGT-1"},
	}
}

// TestAWaiverIsOnce has an agent take up a policy by a waiver. From then on the quorum of
// that policy counts, and the emergency group of the one before no more.
// Draft: WIT-6.
func TestAWaiverIsOnce(t *testing.T) {
	w, b := automatic(t, follows(withEmergency(), otherWitnesses()))
	all(with("policy before", "policy"), cosign(60, "anna", "carl", "v1", "v2"))(w, b)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	again := func(names ...string) error {
		next := *b
		next.From, next.Consistency, next.Head = uint64(len(w.Leaves)), nil, w.Signed(len(w.Leaves))
		cosign(60, names...)(w, &next)
		_, err := next.Check(v.Next, w.now)
		return err
	}
	must(t, again("v2", "v3"))
	if again("anna", "bert", "carl") == nil {
		t.Error("the emergency group of the policy before counts still")
	}
}

// TestAWaiverIsOfWitnessesOnly has a policy follow that names the same witnesses and takes
// older cosignatures: the emergency group waives no age.
func TestAWaiverIsOfWitnessesOnly(t *testing.T) {
	for _, most := range []int64{600_000, 7_200_000} {
		w, b := automatic(t, func(w *world) {
			follows(withEmergency(), withEmergency())(w)
			first := w.hooks["policy"]
			w.hooks["policy"] = func(body entry.Body) {
				first(body)
				if p, ok := body.(*entry.Policy); ok && p.Previous != nil {
					p.Windows.BundleMaxAgeMS = most
				}
			}
		})
		all(with("policy before", "policy"), cosign(700, "w1", "w2", "w3"), cosign(60, "anna", "bert"))(w, b)
		if _, err := b.Check(w.state(), w.now); err == nil || !strings.Contains(err.Error(), "AGT-1") {
			t.Errorf("the policy that follows allows %d ms: %v", most, err)
		}
	}
}
