package glossary

// indexRules are the rules about the index of the log, and about the bundles and histories that use
// the index.
func indexRules() []Explanation {
	return []Explanation{
		{"IDX-1", "subjects and labels", "The entry and its index alone give the subjects of the entry, and its label under each subject (docs/index.md).", ""},
		{"IDX-2", "the tree of the index", "The index is a prefix tree over subjects. The record of a subject commits, label by label, to the list of " +
			"its entries. Under a root, a subject has one provable answer.", ""},
		{"IDX-3", "index entries", "An index entry covers only entries before it, and more of them than the index entry before it. The ledger refuses " +
			"a root that the ledger has not computed itself.", "leave index entries to the coordinator of the ledger"},
		{"IDX-4", "complete histories", "A verifier names subjects and labels. A history file proves which entries the first N entries of the log have under them, and that there are no others.", ""},
		{"ABS-1", "the index of a bundle", "With index.required in the policy, or with arl agent listen --absences, a bundle must have an index entry " +
			"that covers the decision, and all entries after that index entry up to the tree head.",
			"fetch the bundle again: the index may not have covered the decision yet"},
		{"ABS-2", "no decision is left out", "The index proves that the bundle has every authorize, amend, override, escalate and record of the " +
			"incident up to the tree head.", "fetch the bundle again, or from another carrier"},
		{"ABS-3", "no revocation is left out", "The index proves that the agent knows every revocation and rotation of the keys that signed the " +
			"decision's evidence.", "fetch the bundle again, or from another carrier"},
		{"ABS-4", "no policy is left out", "The index proves that the agent knows every policy up to the tree head.", "fetch the bundle again, or from another carrier"},
	}
}
