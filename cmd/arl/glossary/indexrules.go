package glossary

// indexRules are the rules about the index of the log, and of the bundles and histories
// that rest on it.
func indexRules() []Explanation {
	return []Explanation{
		{"IDX-1", "subjects and labels", "The subjects of an entry and its label under each follow from the entry and its index, and from nothing else (docs/index.md).", ""},
		{"IDX-2", "the tree of the index", "The index is a prefix tree over subjects. The record of a subject commits, label by label, to the list of its entries. Under a root, a subject has one provable answer.", ""},
		{"IDX-3", "index entries", "An index entry covers no more entries than stand before it, and more than the index entry before it. The ledger refuses a root that it has not computed itself.", "leave index entries to the coordinator of the ledger"},
		{"IDX-4", "complete histories", "A history file proves, for subjects and labels that the verifier names, that up to size N these entries are in the log and no others, or none.", ""},
		{"ABS-1", "the index of a bundle", "If the policy says index.required, or the agent wants it (arl agent listen --absences), a bundle must bring an index entry that covers the decision, and all entries behind it up to the tree head.",
			"fetch the bundle again: the index may not have covered the decision yet"},
		{"ABS-2", "no decision is left out", "By the index, the bundle has every authorize, amend, override, escalate and record of the incident up to the tree head.", "fetch the bundle again, or from another carrier"},
		{"ABS-3", "no revocation is left out", "By the index, the agent knows every revocation and rotation of a key of those who signed what the decision rests on.", "fetch the bundle again, or from another carrier"},
		{"ABS-4", "no policy is left out", "By the index, the agent knows every policy up to the tree head.", "fetch the bundle again, or from another carrier"},
	}
}
