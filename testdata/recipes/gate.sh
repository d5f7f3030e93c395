#!/bin/sh
# Fails a change whose policy or prompts make recovery worse. Run it in the checkout of the change:
#
#   sh BASE/gate.sh BASE
#
# BASE is the directory with all files as they were before, such as a second checkout of the target
# branch. A change does not set the gate that it has to pass: gate.sh and cases.ndjson of BASE
# decide. Another threshold of policy.yaml, another live.yaml or live/, and a case that is dropped
# are refused together with anything else.
#
#   policy.yaml    the policy; it names the digest of each prompt
#   prompts/       NAME.txt is the prompt of the variant NAME
#   cases.ndjson   recorded cases, for example of arl scenario import --format ledger
#   live.yaml      if it is there, attempts are made for real: a changed prompt shows what it does
#   live/          the programs that live.yaml names, as far as they judge
#
# The exit code is 0 if the change may be merged, 7 if it is worse, 14 if the cases do not say.
set -eu
base=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# same NAME says whether a file or directory is as it was. Absent before and now is the same.
same() {
  if [ -e "$base/$1" ] && [ -e "$1" ]; then
    diff -r "$base/$1" "$1" > /dev/null
  else
    [ ! -e "$base/$1" ] && [ ! -e "$1" ]
  fi
}

arl policy lint policy.yaml

arl policy diff "$base/policy.yaml" policy.yaml --output json > "$out/changes"
threshold='^{"path":"/recovery/thresholds'
touch "$out/before"
[ ! -f "$base/cases.ndjson" ] || sort "$base/cases.ndjson" > "$out/before"
sort cases.ndjson > "$out/now"
rules=0 limits=0 cases=0 live=0
if grep -v "$threshold" "$out/changes" > /dev/null || ! same prompts; then rules=1; fi
if grep "$threshold" "$out/changes" > /dev/null; then limits=1; fi
if [ ! -s "$out/before" ] || [ -n "$(comm -23 "$out/before" "$out/now")" ]; then cases=1; fi
if ! same live.yaml || ! same live; then live=1; fi
if [ $((rules + limits + cases + live)) -gt 1 ]; then
  echo "gate.sh: the change sets the gate that it has to pass: change thresholds, cases, live.yaml with live/, and rules or prompts, each by itself" >&2
  exit 7
fi

# The policy names exactly the prompts that are there, so that the report is one of these.
arl policy diff policy.yaml --output json > "$out/policy" # as parsed, and without the default
sed -n 's|^{"path":"/recovery/variants/\([a-z_]*\)".*"is":"sha256:\([0-9a-f]*\)"}$|\2  prompts/\1.txt|p' "$out/policy" | sort > "$out/named"
for prompt in prompts/*.txt; do
  if [ -f "$prompt" ]; then sha256sum "$prompt"; fi
done | sort > "$out/prompts"
if ! diff "$out/named" "$out/prompts" >&2; then
  echo "policy.yaml: recovery.variants (<) are not the digests of prompts/*.txt (>)" >&2
  exit 2
fi

# Before the runs: these may not decide, and a policy that does harm is worse all the same.
arl scenario mutate cases.ndjson --policy policy.yaml

set --
if [ -f live.yaml ]; then set -- --live live.yaml; fi
if [ "$rules" = 0 ]; then # nothing to compare: thresholds hold by themselves
  arl recover --scenario cases.ndjson --policy policy.yaml "$@" --out "$out/run"
  exit
fi
scenario=$(cd "$base" && pwd)/cases.ndjson
(cd "$base" && arl recover --scenario "$scenario" --policy policy.yaml "$@" --out "$out/base") || code=$?
case ${code:-0} in 0 | 7 | 14) ;; *) exit "$code" ;; esac
arl recover --scenario "$scenario" --policy policy.yaml "$@" --baseline "$out/base/report.json" --out "$out/change"
