#!/bin/sh
# Stands in for veilsum in the demo's own tests: three clients, three rounds, client 1 stalls in round 2.
# The folder of the configuration says how it misbehaves, in a file named `mode`.
verb=$1
shift
stall=
while [ $# -gt 0 ]; do
    case $1 in
    --config) config=$2; shift ;;
    --stall-upload-in-round) stall=$2; shift ;;
    --trust) trust=$2; shift ;;
    --format) [ "$2" = json ] || exit 2; shift ;;
    *) bundle=$1 ;;
    esac
    shift
done
[ "$verb" = audit ] && config=$trust
base=$(dirname "$config")
mode=$(cat "$base/mode")
echo $$ >>"$base/processes"

say() { printf '{"schema":"veilsum-events/1","t_ms":1,"event":%s}\n' "$1"; }
await() {
    tries=0
    while [ ! -e "$1" ]; do
        sleep 0.02
        tries=$((tries + 1))
        [ $tries -gt 1500 ] && { echo "$1 never came" >&2; exit 9; }
    done
}
head='"head":{"size":9,"root":"00ff"}'
round_done() { say "\"round_done\",\"round\":$1,\"attempt\":0,\"survivors\":[$2],\"dropped\":[$3],\"released\":[0,1],\"withheld\":[],\"weights\":[5,6],$head"; }
round() {
    say "\"round\",\"round\":$1,\"attempt\":0,\"clusters\":[[0,1],[1,2]]"
    say "\"phase\",\"round\":$1,\"phase\":\"mask\",\"have\":1,\"want\":3,\"deadline_ms\":900,\"bytes_in\":${1}00,\"bytes_out\":${1}7"
}
scored() { say "\"evaluated\",\"round\":$1,\"cluster\":$2,\"images\":4,\"loss\":$3,\"metrics\":{\"abs_rel\":$3,\"sq_rel\":1,\"rmse\":2,\"rmse_log\":1,\"delta1\":0.5,\"delta2\":0.6,\"delta3\":0.7}"; }

case $verb in
serve)
    [ "$mode" = schema ] && { echo '{"schema":"veilsum-events/9","t_ms":1,"event":"listening"}'; exec sleep 600; }
    [ "$mode" = stray ] && echo "a library says hello"
    say '"listening","addr":"127.0.0.1:1"'
    for client in 0 1 2; do
        await "$base/joined-$client"
        say "\"connected\",\"client\":$client,\"connected\":1,\"expected\":3"
    done
    [ "$mode" = hang ] && exec sleep 600
    [ "$mode" = abort ] && { say '"round_aborted","round":1,"attempt":0,"reason":"TooFewKeys","detail":"too few keys"'; say '"failed","reason":"Aborted","detail":"round 1 failed"'; exit 5; }
    round 1
    round_done 1 0,1,2 ""
    round 2
    [ "$mode" = hasty ] && { round_done 2 0,1,2 ""; exec sleep 600; }
    await "$base/stalled"
    while kill -0 "$(cat "$base/stalled")" 2>/dev/null; do sleep 0.02; done
    say '"disconnected","client":1'
    round_done 2 0,2 1
    await "$base/again"
    round 3
    round_done 3 0,1,2 ""
    [ "$mode" = quiet ] && exit 0
    touch "$base/over"
    say "\"finished\",\"rounds\":3,\"bundle\":\"$base/bundle\",$head"
    ;;
join)
    client=${config##*client-}
    client=${client%.toml}
    [ "$mode" = die ] && [ "$client" = 2 ] && { echo "setting \`data\`: no frames" >&2; say '"failed","reason":"Config","detail":"the folder is empty"'; exit 3; }
    [ "$mode" = interrupted ] && exit 130
    say "\"joined\",\"client\":$client,\"addr\":\"127.0.0.1:1\""
    if [ -e "$base/joined-$client" ]; then
        echo "$OMP_NUM_THREADS" >"$base/again.new"
        mv "$base/again.new" "$base/again"
    else
        scored 0 0 0.8
        [ "$client" = 1 ] && scored 0 1 0.8
    fi
    touch "$base/joined-$client"
    [ "$mode" = hasty ] && exec sleep 600
    if [ -n "$stall" ]; then
        [ "$stall" = 2 ] || exit 2
        # The word is the death sentence, so it comes last. A file appears whole.
        echo $$ >"$base/stalled.new"
        mv "$base/stalled.new" "$base/stalled"
        say '"stalled","round":2,"sent_bytes":64,"total_bytes":128'
        exec sleep 600
    fi
    await "$base/over"
    scored 3 0 "0.$client"
    say "\"round_done\",\"round\":3,\"released\":[0],\"withheld\":[],\"bytes_sent\":${client}1,\"bytes_received\":${client}2"
    say '"finished"'
    [ "$mode" = linger ] && [ "$client" = 0 ] && exec sleep 600
    [ "$mode" = close ] && [ "$client" = 0 ] && { exec >&-; exec sleep 600; }
    exit 0
    ;;
audit)
    [ "$bundle" = "$base/bundle" ] || exit 2
    echo '{"overall":"verified","findings":['
    echo '{"check":"sums","round":1,"attempt":0,"status":"verified"},{"check":"sums","round":2,"attempt":0,"status":"verified"},'
    echo '{"check":"erasure","round":null,"attempt":null,"status":"not checkable","reason":"no bundle can"}],"rounds":[]}'
    ;;
esac
