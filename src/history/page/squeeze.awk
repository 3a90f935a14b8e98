# SPDX-License-Identifier: MIT
# Makes JavaScript (or with -v css=1 CSS) shorter: comments, indentation, and blanks beside punctuation outside of strings go,
# lines are joined, and names become short: those declared at the left edge, and those of methods that have a capital within.
# It does not parse; so the sources keep to this: strings stand in double quotes and have none within, a comment has its line
# for itself or follows a semicolon or comma, every statement ends in a semicolon or a brace, no template spans lines, no
# regular expression has a blank or a quote, a property of an object has its colon right behind it, and no method with a
# capital is called like anything of the browser's or of the story's.
/^(function|class|const) [A-Za-z_]+/ && !css {
	name = $2
	sub(/[^A-Za-z_].*/, "", name)
	if (length(name) > 3)
		short[name] = "$" (++names)
}

/^\t+[a-z]+[A-Z][A-Za-z]*\(.*\) [{]$/ && !css {
	name = $1
	sub(/\(.*/, "", name)
	if (!(name in method))
		method[name] = "$" (++names)
}

{
	text[NR] = $0
}

END {
	for (n = 1; n <= NR; n++)
		add(text[n])
	print held
}

function add(line, isTop, isMethod, part, count, i) {
	isTop = line ~ /^}/
	isMethod = line ~ /^\t+[A-Za-z]+\(.*\) [{]$/
	sub(/^[ \t]+/, "", line)
	if (line == "" || line ~ /^\/\// || line ~ /^\/\*.*\*\/$/)
		return
	if (!css && match(line, /[;,] +\/\/ /))
		line = substr(line, 1, RSTART)
	count = split(line, part, "\"")
	line = ""
	for (i = 1; i <= count; i++)
		line = line (i > 1 ? "\"" : "") (i % 2 == 0 ? part[i] : css ? squeeze_css(part[i]) : squeeze(part[i], isMethod && i == 1))
	# The last statement of a block needs no semicolon, but an empty one does.
	if (line ~ /^}/ && held ~ (css ? ";$" : "[^)];$"))
		held = substr(held, 1, length(held) - 1)
	printf "%s", held
	held = line (isTop || line ~ /[A-Za-z0-9_$]$/ ? "\n" : "")
}

function squeeze(s, isMethod, out, piece) {
	s = rename(s, isMethod)
	gsub(/const /, "let ", s)
	while (match(s, / +[][(){}*\/%=<>!&|?:,;+-]+ *|[][(){}*\/%=<>!&|?:,;+-]+ +/)) {
		piece = substr(s, RSTART, RLENGTH)
		gsub(/ /, "", piece)
		out = out substr(s, 1, RSTART - 1) piece
		s = substr(s, RSTART + RLENGTH)
	}
	return out s
}

# Not what stands behind a dot or before a colon, nor what a method is called.
function rename(s, isMethod, out, name, before, after) {
	while (match(s, /[A-Za-z_$][A-Za-z0-9_$]*/)) {
		name = substr(s, RSTART, RLENGTH)
		before = substr(s, 1, RSTART - 1)
		after = substr(s, RSTART + RLENGTH, 1)
		out = out before (name in method ? method[name] : name in short && !isMethod && before !~ /(^|[^.])[.]$/ && after != ":" ? short[name] : name)
		s = substr(s, RSTART + RLENGTH)
		isMethod = 0
	}
	return out s
}

function squeeze_css(s) {
	while (match(s, / [{};>]|[{};:,>] /))
		s = substr(s, 1, RSTART - 1) (substr(s, RSTART, 1) == " " ? substr(s, RSTART + 1, 1) : substr(s, RSTART, 1)) substr(s, RSTART + 2)
	gsub(/;}/, "}", s)
	return s
}
