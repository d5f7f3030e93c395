#!/bin/sh
# Fails a change whose policy or prompts make recovery worse. Run it in the checkout of the change:
#
#   sh gate.sh BASE
#
# BASE is the directory with policy.yaml and prompts/ as they were before, such as a second checkout.
# cases.ndjson has the recorded cases, for example of arl scenario import --format ledger. If
# live.yaml is there, attempts are made for real, so that a changed prompt shows what it does.
# The exit code is 0 if the change may be merged, 7 if it is worse, 14 if the cases do not say.
set -eu
base=$1
cases=$PWD/cases.ndjson
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
set --
if [ -f live.yaml ]; then set -- --live "$PWD/live.yaml"; fi

arl policy lint policy.yaml

# The policy names the digest of each prompt, so that the report is one of exactly these prompts.
for prompt in prompts/*.txt; do
  [ -f "$prompt" ] || continue
  name=$(basename "$prompt" .txt)
  digest=$(sha256sum "$prompt" | cut -d ' ' -f 1)
  if ! grep -q "$name: *[\"']\{0,1\}sha256:$digest" policy.yaml; then
    echo "policy.yaml: recovery.variants.$name is not sha256:$digest, the digest of $prompt" >&2
    exit 2
  fi
done

# Before the runs: these may not decide, and a policy that does harm is worse all the same.
arl scenario mutate cases.ndjson --policy policy.yaml

(cd "$base" && arl recover --scenario "$cases" --policy policy.yaml "$@" --out "$out/before") || before=$?
case ${before:-0} in 0 | 7 | 14) ;; *) exit "$before" ;; esac
arl recover --scenario cases.ndjson --policy policy.yaml "$@" --baseline "$out/before/report.json" --out "$out/now"
