package words

import (
	"fmt"
	"time"

	"recoveryledger/api"
)

// Finding is the result of one check of a machine or a ledger.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // FindingOK, FindingWarn or FindingFail
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"` // empty with FindingOK
}

// The states of a [Finding].
const (
	FindingOK   = "ok"
	FindingWarn = "warn"
	FindingFail = "fail"
)

// FindReady says whether a ledger takes entries. refused is the problem that an entry would get.
func FindReady(refused error) Finding {
	if refused != nil {
		return Finding{"ready", FindingFail, refused.Error(), "the ledger refuses entries now, and still answers reads"}
	}
	return Finding{"ready", FindingOK, "takes entries", ""}
}

// FindSpace says how much of a disk is free, in bytes, and whether that is less than least. about
// names the place, or says more. unknown is why the free space is not known.
func FindSpace(check, about string, free, least uint64, unknown error) Finding {
	if unknown != nil {
		return Finding{check, FindingWarn, unknown.Error(), "check the free disk space: a ledger without its reserve of disk space refuses entries"}
	}
	detail := fmt.Sprintf("%d MiB free %s", free>>20, about)
	if free < least {
		return Finding{check, FindingWarn, detail, "free disk space: a ledger without its reserve of disk space refuses entries"}
	}
	return Finding{check, FindingOK, detail, ""}
}

// FindReserve says how much of a ledger's disk is free beside its reserve, both in bytes. unknown
// is why the free space is not known.
func FindReserve(free, reserve uint64, unknown error) Finding {
	return FindSpace("space for data", fmt.Sprintf("of which %d MiB are the reserve", reserve>>20), free, max(reserve, 1<<30), unknown)
}

// backupAgeMax is the age of a backup from which on people are told: a daily backup was left out.
const backupAgeMax = 48 * time.Hour

// FindBackup says how old the last backup of a ledger is, and how many entries it has. The backup
// is of this moment if it seems to be of a later one.
func FindBackup(age time.Duration, entries uint64) Finding {
	found := Finding{Check: "backup", State: FindingOK, Detail: fmt.Sprintf("made %v ago, with size %d", max(age, 0).Round(time.Second), entries)}
	if age > backupAgeMax {
		found.State, found.Remedy = FindingWarn, "run arl backup DIR --data DIR, and find out why it does not run every day"
	}
	return found
}

// FindWitnesses says how far the witnesses of the policy in force have come. w is nil if the policy
// names none.
func FindWitnesses(w *api.Witnessing) (list []Finding) {
	if w == nil {
		return nil
	}
	if w.Lacking != "" {
		list = append(list, Finding{"witnesses", FindingWarn, w.Lacking, "see docs/witness.md: agents obey a decision only with recent cosignatures of a quorum"})
	} else {
		list = append(list, Finding{"witnesses", FindingOK, fmt.Sprintf("the quorum has cosigned size %d", w.Size), ""})
	}
	for _, one := range w.Witnesses {
		if one.Failed != "" && !one.Former {
			list = append(list, Finding{"witness " + one.Name, FindingWarn, one.Failed, "ask the operator of the ledger; " + one.URL})
		}
	}
	return list
}
