#!/bin/sh
# Fails a change whose policy or prompts make recovery worse. Run it in the checkout of the change:
#
#   sh BASE/gate.sh BASE
#
# BASE is the directory with policy.yaml, prompts/ and cases.ndjson as they were before, such as a
# second checkout of the target branch. Its gate.sh decides: a change does not set the gate that it
# has to pass. For the same reason a change of thresholds, and one that drops cases, is refused
# together with a change of anything else. cases.ndjson has the recorded cases, for example of arl scenario import --format ledger. If
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

# Thresholds and cases of the change count only if everything else is as it was.
arl policy diff "$base/policy.yaml" policy.yaml --output json > "$out/changes"
mkdir -p "$out/none"
before=$base/prompts now=prompts
[ -d "$before" ] || before=$out/none
[ -d "$now" ] || now=$out/none
rules=0 limits=0 dropped=0
if grep -v '"path": *"/recovery/thresholds' "$out/changes" > /dev/null || ! diff -r "$before" "$now" > /dev/null; then rules=1; fi
if grep '"path": *"/recovery/thresholds' "$out/changes" > /dev/null; then limits=1; fi
if [ -f "$base/cases.ndjson" ]; then
  sort "$base/cases.ndjson" > "$out/cases-before"
  sort "$cases" > "$out/cases-now"
  if [ -n "$(comm -23 "$out/cases-before" "$out/cases-now")" ]; then dropped=1; fi
fi
if [ $((rules + limits + dropped)) -gt 1 ]; then
  echo "gate.sh: the change sets the gate that it has to pass: change thresholds, cases, and rules or prompts, each by itself" >&2
  exit 7
fi

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

(cd "$base" && arl recover --scenario "$cases" --policy policy.yaml "$@" --out "$out/before") || code=$?
case ${code:-0} in 0 | 7 | 14) ;; *) exit "$code" ;; esac
arl recover --scenario cases.ndjson --policy policy.yaml "$@" --baseline "$out/before/report.json" --out "$out/now"
