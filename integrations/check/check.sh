#!/usr/bin/env bash
# Runs `breakeven check` and writes its Markdown into the job's summary. All settings are variables, never part of the
# script's text. Exit status: that of the check (0, 1 slower, 2 nothing measured, 3 not clear), but 0 for 3 unless
# CHECK_FAIL_WHEN_NOT_CLEAR is true.
set -uo pipefail

arguments=(check "$CHECK_BASELINE" --model "$CHECK_MODEL" --format md)
add() { # flag value: only where there is a value
    if [ -n "$2" ]; then
        arguments+=("$1=$2")
    fi
}
add --against "${CHECK_AGAINST:-}"
add --max-slowdown "${CHECK_MAX_SLOWDOWN:-}"
add --budget "${CHECK_BUDGET:-}"
add --batches "${CHECK_BATCHES:-}"
add --target "${CHECK_TARGET:-}"
add --out "${CHECK_OUTPUT:-}"
add --bencher "${CHECK_BENCHER:-}"

answer=$(mktemp) messages=$(mktemp)
trap 'rm -f "$answer" "$messages"' EXIT
read -ra command <<<"${CHECK_COMMAND:-breakeven}" # such as python -m core
"${command[@]}" "${arguments[@]}" 2>&1 >"$answer" | tee "$messages" >&2
status=${PIPESTATUS[0]}
summary=$(<"$answer")

case $status in
0) verdict=unchanged ;;
1) verdict=slower ;;
3) verdict=inconclusive ;;
*) verdict= ;;
esac
if [ "$verdict" = unchanged ] && [[ $summary == "### Faster"* ]]; then
    verdict=faster
fi
if [ -z "$summary" ]; then # one sentence on stderr says why
    summary="**Breakeven check:** $(tail -n 1 "$messages")"
fi
printf '## Breakeven check\n\n%s\n' "$summary" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'verdict=%s\n' "$verdict" >>"$GITHUB_OUTPUT"
fi

if [ "$status" = 3 ] && [ "${CHECK_FAIL_WHEN_NOT_CLEAR:-false}" != true ]; then
    exit 0
fi
exit "$status"
