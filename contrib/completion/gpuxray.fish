# SPDX-License-Identifier: MIT
# fish completion of gpuxray.

# Is the command one of these? The first word alone counts: a file may be called like a command.
function __gpuxray_is
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end

function __gpuxray_first
    test (count (commandline -opc)) -eq 1
end

function __gpuxray_pids
    string replace -rf '^/proc/(\d+)$' '$1' /proc/*
end

function __gpuxray_units
    type -q systemctl; or return
    systemctl list-units --all --full --plain --no-legend --no-pager --type=service,scope 2>/dev/null |
        string replace -r ' .*' ''
end

complete -c gpuxray -f
complete -c gpuxray -n __gpuxray_first -a run -d 'trace, evaluate rules, write records, until stopped'
complete -c gpuxray -n __gpuxray_first -a check -d 'validate configuration and rules'
complete -c gpuxray -n __gpuxray_first -a test -d 'run tests of rules on a clock of their own'
complete -c gpuxray -n __gpuxray_first -a doctor -d 'is this host ready'
complete -c gpuxray -n __gpuxray_first -a memtrace -d 'watch what processes allocate and where'
complete -c gpuxray -n __gpuxray_first -a top -d 'a live table of devices and processes'
complete -c gpuxray -n __gpuxray_first -a mon -d 'metrics for Prometheus'
complete -c gpuxray -n __gpuxray_first -a record -d 'write down all that the rules would be told'
complete -c gpuxray -n __gpuxray_first -a replay -d 'what the rules would have said about a recording'
complete -c gpuxray -n __gpuxray_first -a status -d 'ask the running daemon'
complete -c gpuxray -n __gpuxray_first -a report -d 'what happened, from the journal'
complete -c gpuxray -n __gpuxray_first -a help -d 'list the commands'
complete -c gpuxray -n __gpuxray_first -s h -l help -d 'list the commands'
complete -c gpuxray -n __gpuxray_first -s V -l version -d 'tell the version'

# Of several commands.
complete -c gpuxray -n '__gpuxray_is run check test doctor memtrace top mon record replay status report' -s h -l help -d 'tell the options'
complete -c gpuxray -n '__gpuxray_is run check record replay memtrace top mon' -l config -r -F -d configuration
complete -c gpuxray -n '__gpuxray_is run replay' -l rules -r -F -d 'rule file or directory'
complete -c gpuxray -n '__gpuxray_is run record doctor memtrace top mon' -l library -r -F -d 'a further driver library'
complete -c gpuxray -n '__gpuxray_is run record replay report memtrace top' -s p -l pid -x -a '(__gpuxray_pids)' -d 'only this process'
complete -c gpuxray -n '__gpuxray_is run status memtrace top mon' -l socket -r -F -d 'where the daemon answers'
complete -c gpuxray -n '__gpuxray_is record report' -s o -l output -r -F -d 'write there'
complete -c gpuxray -n '__gpuxray_is status report doctor memtrace top' -s j -l json -d 'as JSON'
complete -c gpuxray -n '__gpuxray_is run test doctor record memtrace mon' -s v -l verbose -d 'say more'
complete -c gpuxray -n '__gpuxray_is check test' -l version -d 'tell the version'
complete -c gpuxray -n '__gpuxray_is check test replay' -F

complete -c gpuxray -n '__gpuxray_is run' -l sink -x -a 'auto journal syslog json text' -d 'where records go'
complete -c gpuxray -n '__gpuxray_is run' -l record -r -F -d 'write down all that the rules are told'
complete -c gpuxray -n '__gpuxray_is run' -l record-identity -d 'with command lines, users and uuids of devices'
complete -c gpuxray -n '__gpuxray_is run' -l perf-uprobes -d 'do not use uprobe_multi links'
complete -c gpuxray -n '__gpuxray_is run' -l bare-probes -d 'attach empty probes'
complete -c gpuxray -n '__gpuxray_is run' -s q -l quiet -d 'only warnings and errors'

complete -c gpuxray -n '__gpuxray_is check' -s p -l print -d 'print the merged rules'

complete -c gpuxray -n '__gpuxray_is memtrace top mon' -l own -d 'do not ask the daemon'
complete -c gpuxray -n '__gpuxray_is memtrace mon' -s i -l interval -x -d 'seconds between two looks'
complete -c gpuxray -n '__gpuxray_is memtrace top' -s n -l count -x -d 'end after so many looks'
complete -c gpuxray -n '__gpuxray_is top mon' -l once -d 'print one look and end'

complete -c gpuxray -n '__gpuxray_is memtrace' -l comm -x -d 'processes whose command name matches'
complete -c gpuxray -n '__gpuxray_is memtrace' -s f -l follow -d 'and their children'
complete -c gpuxray -n '__gpuxray_is memtrace' -l print-stacks -d 'call sites that hold memory, with their stacks'
complete -c gpuxray -n '__gpuxray_is memtrace' -l top -x -d 'at most so many call sites'
complete -c gpuxray -n '__gpuxray_is memtrace' -s w -l wide -d 'more columns'

complete -c gpuxray -n '__gpuxray_is top' -s d -l delay -x -d 'seconds between looks'
complete -c gpuxray -n '__gpuxray_is top' -s s -l sort -x -a 'memory driver host peak growth rate sm incidents pid user unit name' -d 'by this column'
complete -c gpuxray -n '__gpuxray_is top' -s r -l reverse -d 'the other way round'
complete -c gpuxray -n '__gpuxray_is top' -s u -l user -x -a '(__fish_complete_users)' -d 'only processes of this user'
complete -c gpuxray -n '__gpuxray_is top' -l filter -x -d 'only processes with this text'
complete -c gpuxray -n '__gpuxray_is top' -l tree -d 'parents and children as a tree'

complete -c gpuxray -n '__gpuxray_is mon' -s l -l listen -x -d 'where to answer'
complete -c gpuxray -n '__gpuxray_is mon' -l openmetrics -d 'as OpenMetrics'
complete -c gpuxray -n '__gpuxray_is mon' -l textfile -r -F -d 'write a file for node_exporter'
complete -c gpuxray -n '__gpuxray_is mon' -l processes -x -d 'so many with series of their own'
complete -c gpuxray -n '__gpuxray_is mon' -l args -d 'a label with the command line'

complete -c gpuxray -n '__gpuxray_is record' -l seconds -x -d 'end after so many'
complete -c gpuxray -n '__gpuxray_is record' -l identity -d 'with command lines, users and uuids of devices'

complete -c gpuxray -n '__gpuxray_is replay' -l sink -x -a 'text json' -d 'how records look'
complete -c gpuxray -n '__gpuxray_is replay' -l from -x -d 'leave out what is said before'
complete -c gpuxray -n '__gpuxray_is replay' -l to -x -d 'stop there'
complete -c gpuxray -n '__gpuxray_is replay' -l stretch -x -d 'everything takes so many times as long'

complete -c gpuxray -n '__gpuxray_is report' -s S -l since -x -a 'today yesterday now' -d 'from then on'
complete -c gpuxray -n '__gpuxray_is report' -s U -l until -x -a 'today yesterday now' -d 'until then'
complete -c gpuxray -n '__gpuxray_is report memtrace' -s u -l unit -x -a '(__gpuxray_units)' -d 'only processes of this unit'
complete -c gpuxray -n '__gpuxray_is report' -l format -x -a 'text json folded html' -d 'how it is told'
complete -c gpuxray -n '__gpuxray_is report' -s D -l directory -x -a '(__fish_complete_directories)' -d 'journal files below it'
complete -c gpuxray -n '__gpuxray_is report' -l file -r -F -d 'these journal files alone'
complete -c gpuxray -n '__gpuxray_is report' -s m -l merge -d 'also journals of other hosts'
complete -c gpuxray -n '__gpuxray_is report' -l width -x -d 'columns of the text'
complete -c gpuxray -n '__gpuxray_is report' -l colour -x -a 'auto always never' -d colours
complete -c gpuxray -n '__gpuxray_is report' -l color -x -a 'auto always never' -d colours
complete -c gpuxray -n '__gpuxray_is report' -l processes -x -d 'so many are told of'
