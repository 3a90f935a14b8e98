# SPDX-License-Identifier: MIT
# bash completion of gpuxray: /usr/share/bash-completion/completions/gpuxray, or sourced by hand.

# The line up to the cursor in words as the program would see them: bash also cuts at "=", ":" and "@".
_gpuxray_split()
{
	local line=${COMP_LINE:0:COMP_POINT} rest piece i

	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		rest=${line#"${line%%[![:blank:]]*}"}
		piece=${COMP_WORDS[i]}
		# The last one goes on behind the cursor.
		((i < COMP_CWORD)) || piece=$rest
		if ((i > 0)) && [[ -n $piece && $rest == "$line" ]]; then
			words[${#words[@]} - 1]+=$piece
		else
			words+=("$piece")
		fi
		line=${rest#"$piece"}
	done
}

# Those of these that begin with value, without what bash keeps of the line. compgen -W would expand names.
_gpuxray_names()
{
	local name

	for name in "$@"; do
		printf -v name %q "$name"
		[[ $name != "$value"* ]] || { name=$front$name; COMPREPLY+=("${name#"$cut"}"); }
	done
}

_gpuxray_units()
{
	local units unit rest

	type -P systemctl >/dev/null || return
	units=()
	while read -r unit rest; do
		units+=("$unit")
	done < <(systemctl list-units --all --full --plain --no-legend --no-pager --type=service,scope 2>/dev/null)
	_gpuxray_names "${units[@]}"
}

# The value of an option, which ends what is looked for; 1 when it takes none.
_gpuxray_value()
{
	local pids users

	case $1:$2 in
	run:--sink) _gpuxray_names auto journal syslog json text ;;
	replay:--sink) _gpuxray_names text json ;;
	report:--format) _gpuxray_names text json folded html ;;
	report:--colour | report:--color) _gpuxray_names auto always never ;;
	run:-p | record:-p | replay:-p | report:-p | memtrace:-p | top:-p | *:--pid)
		pids=(/proc/[0-9]*)
		_gpuxray_names "${pids[@]#/proc/}"
		;;
	report:-u | memtrace:-u | *:--unit) _gpuxray_units ;;
	top:-u | *:--user)
		mapfile -t users < <(compgen -u)
		_gpuxray_names "${users[@]}"
		;;
	top:-s | top:--sort)
		_gpuxray_names memory driver host peak growth rate sm incidents pid user unit name
		;;
	report:-D | *:--directory) compopt -o dirnames ;;
	record:-o | report:-o | *:--config | *:--rules | *:--library | *:--socket | *:--record | *:--output | *:--file | \
		*:--textfile)
		compopt -o default
		;;
	report:-S | report:-U | *:--since | *:--until)
		# With a blank in them they need quotes, which bash would put at a wrong place.
		_gpuxray_names today yesterday now
		;;
	memtrace:-i | memtrace:-n | mon:-l | mon:-i | top:-d | top:-n) ;;
	*:--seconds | *:--from | *:--to | *:--stretch | *:--width | *:--processes | *:--comm | *:--interval | *:--count | \
		*:--top | *:--listen | *:--delay | *:--filter) ;;
	*) return 1 ;;
	esac
}

_gpuxray()
{
	local words whole value cut front='' options command before i is_rest='' IFS=$' \t\n'

	COMPREPLY=()
	_gpuxray_split
	whole=${words[${#words[@]} - 1]}
	# bash replaces what it gives as $2 and leaves what stands before that.
	value=$whole cut=${whole%"$2"}
	if ((${#words[@]} <= 2)); then
		_gpuxray_names run check test doctor memtrace top mon record replay status report help
		[[ $whole != -* ]] || _gpuxray_names -h --help -V --version
		return
	fi
	command=${words[1]}
	before=${words[${#words[@]} - 2]}
	for ((i = 2; i < ${#words[@]} - 1; i++)); do
		[[ ${words[i]} != -- ]] || is_rest=yes
	done

	if [[ -z $is_rest && $whole == --*=* ]]; then
		value=${whole#*=} front=${whole%%=*}=
		_gpuxray_value "$command" "${front%=}"
		return
	fi
	if [[ -z $is_rest && ${#words[@]} -gt 3 && $before == -* ]] && _gpuxray_value "$command" "$before"; then
		return
	fi

	case $command in
	run) options="--config --rules --sink --library -p --pid --socket --record --record-identity --perf-uprobes
		--bare-probes -q --quiet -v --verbose -h --help" ;;
	check) options="--config -p --print -h --help --version" ;;
	test) options="-v --verbose -h --help --version" ;;
	memtrace) options="-p --pid --comm -u --unit -f --follow -i --interval -n --count --print-stacks --top -w --wide
		-j --json --socket --own --library --config -v --verbose -h --help" ;;
	top) options="-d --delay -n --count --once -j --json -s --sort -r --reverse -p --pid -u --user --filter --tree
		--own --socket --config --library -h --help" ;;
	mon) options="-l --listen --once --openmetrics --textfile -i --interval --processes --args --socket --own
		--library --config -v --verbose -h --help" ;;
	record) options="-o --output -p --pid --seconds --identity --library --config -v --verbose -h --help" ;;
	replay) options="--rules --sink --from --to -p --pid --stretch --config -h --help" ;;
	status) options="-j --json --socket -h --help" ;;
	report) options="-S --since -U --until -p --pid -u --unit --format -j --json -o --output -D --directory --file
		-m --merge --width --colour --color --processes -h --help" ;;
	doctor) options="-j --json --library -v --verbose -h --help" ;;
	*) return ;;
	esac
	if [[ -z $is_rest && $whole == -* ]]; then
		# shellcheck disable=SC2086
		_gpuxray_names $options
		return
	fi
	case $command in
	check | test | replay) compopt -o default ;;
	esac
}

complete -F _gpuxray gpuxray
