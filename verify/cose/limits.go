package cose

import "recoveryledger/verify"

// MaxReceipt is the size of a COSE receipt in bytes: that of a tree head, and four KiB.
const MaxReceipt = verify.MaxNote + 4<<10
