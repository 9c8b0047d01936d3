# Scripted agents for test_acp_agent: `sh acp_agent_cases.sh CASE`. Each reads requests and answers
# as the case has it, with nothing but read and printf. $line is the last line read, $id its id.

put() {
	printf '%s\n' "$1"
}
get() {
	IFS= read -r line || exit 0
	id=${line#*'"id":'}
	id=${id%%[,\}]*}
}
answer() {
	put "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"
}
fail() {
	put "{\"jsonrpc\":\"2.0\",\"error\":$1,\"id\":$id}"
}
request() {
	put "{\"jsonrpc\":\"2.0\",\"id\":$1,\"method\":\"$2\",\"params\":$3}"
}
update() {
	put "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":$1}}"
}
say() {
	update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"
}
# Says a line of JSON as text, with its quotes turned into apostrophes.
say_line() {
	rest=$1
	said=
	while [ "$rest" != "${rest#*\"}" ]; do
		said="$said${rest%%\"*}'"
		rest=${rest#*\"}
	done
	say "$said$rest"
}
begin() {
	get
	answer '{"protocolVersion":1,"agentInfo":{"name":"sh","title":null,"version":"1"}}'
	get
	answer '{"sessionId":"s1"}'
}
end_turn() {
	answer '{"stopReason":"end_turn"}'
}
ask() {
	request "$1" session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"c1"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}'
}
until_stdin_ends() {
	while read -r line; do :; done
}

# Goes on with an earlier session: $1 are the capabilities.
begin_again() {
	get
	answer "{\"protocolVersion\":1,\"agentCapabilities\":$1,\"agentInfo\":{\"name\":\"${2:-sh}\",\"version\":\"${3:-1}\"}}"
	get
}
user() {
	update "{\"sessionUpdate\":\"user_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"
}
history() {
	user 'Is it green?'
	say 'The tests will tell.'
	update '{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T","status":"pending"}'
	update '{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}'
	say 'It is green.'
}
serve_prompts() {
	while :; do
		get
		say_line "$line"
		end_turn
	done
}

case $1 in
resume)
	begin_again '{"loadSession":true,"sessionCapabilities":{"resume":{}}}'
	asked=$line
	update '{"sessionUpdate":"available_commands_update","availableCommands":[]}'
	answer '{"modes":{"currentModeId":"a","availableModes":[]}}'
	say_line "$asked"
	serve_prompts
	;;
load)
	begin_again '{"loadSession":true}'
	asked=$line
	history
	update '{"sessionUpdate":"usage_update","used":5,"size":10}'
	answer null
	get
	say_line "$asked"
	end_turn
	serve_prompts
	;;
load-late)
	# The history goes on behind the answer.
	begin_again '{"loadSession":true}'
	user 'Is it green?'
	answer '{}'
	say 'The tests will tell.'
	say 'This was never heard.'
	update '{"sessionUpdate":"available_commands_update","availableCommands":[]}'
	serve_prompts
	;;
load-trickle)
	# The history comes behind the answer, with pauses, and the state of the session in between.
	begin_again '{"loadSession":true}'
	answer '{}'
	sleep 0.6
	user 'Is it green?'
	sleep 0.12
	update '{"sessionUpdate":"available_commands_update","availableCommands":[]}'
	say 'The tests will tell.'
	update '{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T","status":"completed"}'
	sleep 0.6
	say 'It is green.'
	serve_prompts
	;;
load-late-more)
	# The history goes on behind the answer, and after a pause where the log ends.
	begin_again '{"loadSession":true}'
	answer '{}'
	history
	sleep 0.6
	say 'This was never heard.'
	serve_prompts
	;;
once)
	# Answers one prompt, and is gone.
	begin
	get
	say_line "$line"
	end_turn
	exit 0
	;;
remembers)
	# Also what nobody has heard; each prompt is answered with the same.
	begin_again '{"loadSession":true}'
	case $line in
	*session/load*)
		user 'first question'
		say 'An answer.'
		say 'This was said while nobody could hear it.'
		answer null
		;;
	*) answer '{"sessionId":"s1"}' ;;
	esac
	while :; do
		get
		say 'An answer.'
		end_turn
	done
	;;
load-refused)
	begin_again '{"loadSession":true}'
	say 'never to be seen'
	fail '{"code":-32002,"message":"Session not found"}'
	get
	answer '{"sessionId":"s1"}'
	serve_prompts
	;;
load-foreign)
	begin_again '{"loadSession":true}'
	user 'Write me a poem about the sea.'
	say 'The sea, the sea, the open sea.'
	answer '{}'
	get
	answer '{"sessionId":"s1"}'
	serve_prompts
	;;
load-dies)
	# Each time that it is asked to go on.
	begin_again '{"loadSession":true}'
	case $line in
	*session/load*) exit 3 ;;
	esac
	answer '{"sessionId":"s1"}'
	serve_prompts
	;;
load-dies-late)
	# The same, when it has answered.
	begin_again '{"loadSession":true}'
	case $line in
	*session/load*)
		answer '{}'
		exit 3
		;;
	esac
	answer '{"sessionId":"s1"}'
	serve_prompts
	;;
load-loses)
	begin_again '{"loadSession":true}' gemini-cli 0.61.0
	asked=$line
	answer '{"sessionId":"s1"}'
	get
	say_line "$asked"
	end_turn
	serve_prompts
	;;
load-other-session)
	begin_again '{"loadSession":true}'
	put '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not ours"}}}}'
	history
	answer '{}'
	serve_prompts
	;;
requests)
	# What is sent at the start, word for word, then two prompts.
	get
	first=$line
	answer '{"protocolVersion":1}'
	get
	second=$line
	answer '{"sessionId":"s1"}'
	get
	say_line "$first"
	say_line "$second"
	say_line "$line"
	end_turn
	get
	say_line "$line"
	end_turn
	until_stdin_ends
	;;
turn)
	begin
	get
	say one
	update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"T"}'
	update '{"sessionUpdate":"usage_update","used":1,"size":2}'
	answer '{"stopReason":"max_tokens","usage":{"totalTokens":3,"inputTokens":2,"outputTokens":1}}'
	until_stdin_ends
	;;
usage_again)
	# The third turn used as much as the second.
	begin
	for tokens in 5 3 3 5; do
		get
		answer "{\"stopReason\":\"end_turn\",\"usage\":{\"inputTokens\":$tokens}}"
	done
	until_stdin_ends
	;;
early)
	get
	answer '{"protocolVersion":1}'
	get
	update '{"sessionUpdate":"current_mode_update","currentModeId":"m"}'
	put '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"x"}}}'
	answer '{"sessionId":"s1"}'
	put '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"y"}}}'
	get
	end_turn
	until_stdin_ends
	;;
exits)
	begin
	get
	say "half a"
	exit 3
	;;
fails_thrice)
	# At its first three starts, and at its fifth.
	starts=0
	[ ! -e starts ] || read -r starts <starts
	starts=$((starts + 1))
	echo $starts >starts
	if [ $starts -le 3 ] || [ $starts -eq 5 ]; then
		exit 7
	fi
	begin
	get
	end_turn
	if [ $starts -eq 4 ]; then
		get
		exec sh "$0" fails_thrice
	fi
	until_stdin_ends
	;;
killed)
	begin
	get
	kill -KILL $$
	;;
closes_output)
	begin
	get
	exec >&-
	until_stdin_ends
	exit 4
	;;
version)
	get
	answer '{"protocolVersion":2}'
	until_stdin_ends
	;;
auth)
	get
	answer '{"protocolVersion":1,"authMethods":[{"id":"a","name":"Log in","description":"run `agent login`"},{"id":"b"},{"id":"k","name":"Key","description":null}]}'
	get
	fail '{"code":-32000,"message":"Authentication required"}'
	until_stdin_ends
	;;
no_session)
	get
	answer '{"protocolVersion":1}'
	get
	answer '{"sessionId":5}'
	until_stdin_ends
	;;
silent)
	until_stdin_ends
	;;
noise)
	begin
	get
	put 'Loading model...'
	put ''
	put '[1,2]'
	put '{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}'
	put '{"jsonrpc":"2.0","id":999,"result":{}}'
	put '{"jsonrpc":"2.0","id":"4","result":{"stopReason":"end_turn"}}'
	put '{"jsonrpc":"2.0","method":"_ext/notice","params":7}'
	put '{"jsonrpc":"2.0","method":"session/update"}'
	update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}'
	long=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
	long=$long$long$long$long$long$long$long$long
	long=$long$long$long$long$long$long$long$long$long
	say "$long"
	say 'nul \u0000 lone \ud83d.'
	printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"raw \377\r"}}}}\r\n'
	say 'after'
	printf 'to \033[31mstderr\033[0m\n' >&2
	answer '{"stopReason":"tired"}'
	until_stdin_ends
	;;
ids)
	get
	put '{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":1,"agentInfo":{"name":"sh","title":null,"version":"1"}}}'
	get
	put '{"jsonrpc":"2.0","method":null,"id":2.0,"error":null,"result":{"sessionId":"s1"}}'
	get
	ask 7
	put '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"7"}}'
	get
	ask 7
	ask '"7"'
	put '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"7"}}'
	get
	say_line "$line"
	put '{"jsonrpc":"2.0","id":"3.5","result":{"stopReason":"refusal"}}'
	put '{"jsonrpc":"2.0","id":"three","result":{"stopReason":"refusal"}}'
	put '{"jsonrpc":"2.0","id":30e-1,"result":{"stopReason":"end_turn"}}'
	get
	put '{"jsonrpc":"2.0","id":"4e0"}'
	until_stdin_ends
	;;
unread)
	begin
	get
	prompt=$id
	put "Cached.{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}"
	get
	prompt=$id
	put 'to come: {"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{}}'
	ask 7
	get
	put 'lost: {"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"path":"x"}}'
	get
	say_line "$line"
	put "to come: {\"jsonrpc\":\"2.0\",\"id\":$prompt,\"result\":{\"stopReason\":\"end_turn\"}}"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
long_lines)
	begin
	get
	prompt=$id
	long=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
	long=$long$long$long$long$long$long$long$long
	long=$long$long$long$long$long$long$long$long$long
	put "{\"jsonrpc\":\"2.0\",\"method\":\"fs/write_text_file\",\"params\":{\"path\":\"/x\",\"content\":\"$long\"},\"id\":0}"
	get
	say_line "$line"
	id=$prompt
	answer "{\"stopReason\":\"end_turn\",\"_meta\":{\"long\":\"$long\"}}"
	get
	end_turn
	until_stdin_ends
	;;
session_state)
	get
	answer '{"protocolVersion":1,"agentInfo":{"name":"sh"}}'
	get
	answer '{"sessionId":"s1","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]},"models":{"currentModelId":"m","availableModels":[{"modelId":"m"}]},"configOptions":[{"id":"o","currentValue":"v"}]}'
	get
	update '{"sessionUpdate":"available_commands_update","availableCommands":[]}'
	update '{"availableCommands":[],"sessionUpdate":"available_commands_update"}'
	update '{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"c"}]}'
	update '{"sessionUpdate":"available_commands_update","availableCommands":[]}'
	end_turn
	get
	exit 0
	;;
settings)
	# Wishes that waited come in front of the prompt; the answers come in any order, with and without updates.
	get
	answer '{"protocolVersion":1}'
	get
	answer '{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[]}}'
	get
	mode=$id
	say_line "$line"
	get
	prompt=$id
	say_line "$line"
	id=$mode
	answer '{}'
	get
	first=$id
	say_line "$line"
	get
	say_line "$line"
	update '{"sessionUpdate":"current_mode_update","currentModeId":"plan"}'
	answer '{}'
	get
	say_line "$line"
	id=$first
	answer '{"configOptions":[{"id":"model","currentValue":"large"}]}'
	update '{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","currentValue":"large"}]}'
	id=$((first + 2))
	fail '{"code":-32602,"message":"Invalid params","data":"no such option"}'
	answer '{}'
	id=$prompt
	end_turn
	get
	get
	prompt=$id
	id=$((prompt - 1))
	answer '{}'
	id=$prompt
	end_turn
	get
	exit 0
	;;
late)
	# Goes on after the end of its turn, and asks; then there is a lull, and another turn.
	begin
	get
	end_turn
	say late
	ask 0
	get
	say answered
	get
	end_turn
	until_stdin_ends
	;;
metas)
	begin
	get
	update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"one "},"_meta":{"a":1}}'
	update '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"two"},"_meta":{"a":1}}'
	update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"a":2}}'
	update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"T"}'
	update '{"sessionUpdate":"usage_update","used":1,"size":2,"_meta":{"b":3}}'
	answer '{"stopReason":"end_turn","_meta":{"quota":5}}'
	until_stdin_ends
	;;
many_metas)
	begin
	get
	for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 32; do
		update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"n":'$n'}}'
	done
	answer '{"stopReason":"end_turn"}'
	until_stdin_ends
	;;
prompt_error)
	begin
	get
	fail '{"code":-32603,"message":"Internal error","data":{"details":"no quota"}}'
	until_stdin_ends
	;;
ask)
	# Two questions whose ids differ only in type; each answer is told.
	begin
	get
	prompt=$id
	ask 0
	ask '"0"'
	get
	say_line "$line"
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
ask_badly)
	begin
	get
	prompt=$id
	request 1 session/request_permission '{"sessionId":"s1","options":[]}'
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
withdraw)
	begin
	get
	prompt=$id
	ask '"q"'
	ask '"r"'
	put '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"other"}}'
	put '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"r"}}'
	get
	say_line "$line"
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
cancel)
	# Hears of the cancel, gets the answer to its question, asks once more, and only then ends.
	begin
	get
	prompt=$id
	ask 0
	get
	say_line "$line"
	get
	say_line "$line"
	ask 1
	get
	say_line "$line"
	id=$prompt
	answer '{"stopReason":"cancelled"}'
	until_stdin_ends
	;;
deaf_to_cancel)
	# Bears no other in its directory.
	mkdir lock || exit 9
	trap 'rmdir lock' EXIT
	trap '' TERM # it ends with its stdin; the signal for the group would hit rmdir
	begin
	get
	say working
	until_stdin_ends
	;;
unknown)
	begin
	get
	prompt=$id
	request 5 terminal/create '{"command":"true"}'
	get
	say_line "$line"
	request null craft/drain '[]'
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
files)
	# Sends the requests of the file ./requests, one by one, and says what is answered.
	begin
	get
	prompt=$id
	exec 3<requests
	while IFS= read -r next <&3; do
		put "$next"
		get
		say_line "$line"
	done
	id=$prompt
	end_turn
	until_stdin_ends
	;;
terminal)
	# Sends the requests of the file ./requests, one by one, with the newest terminal's id for "@",
	# and says what is answered. An empty line ends the turn.
	begin
	get
	prompt=$id
	while IFS= read -r next <&3; do
		if [ -z "$next" ]; then
			id=$prompt
			end_turn
			get
			prompt=$id
			continue
		fi
		case $next in
		*@*) put "${next%%@*}$terminal${next#*@}" ;;
		*) put "$next" ;;
		esac
		get
		say_line "$line"
		case $line in
		*'"terminalId":"'*)
			terminal=${line#*'"terminalId":"'}
			terminal=${terminal%%'"'*}
			;;
		esac
	done 3<requests
	id=$prompt
	end_turn
	until_stdin_ends
	;;
terminal_waits)
	# Says something while its command waits for it.
	begin
	get
	prompt=$id
	mkfifo fifo
	request 1 terminal/create '{"command":"read x <fifo; echo $x"}'
	get
	terminal=${line#*'"terminalId":"'}
	request '"w"' terminal/wait_for_exit "{\"terminalId\":\"${terminal%%'"'*}\"}"
	request 7 terminal/wait_for_exit "{\"terminalId\":\"${terminal%%'"'*}\"}"
	put '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"w"}}'
	get
	say_line "$line"
	say meanwhile
	request 2 fs/read_text_file '{"path":"/"}'
	get
	echo go >fifo
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
file_order)
	# Two requests at once, and text behind them.
	begin
	get
	prompt=$id
	request 1 fs/write_text_file "{\"path\":\"$PWD/f\",\"content\":\"abc\"}"
	request 2 fs/read_text_file "{\"path\":\"$PWD/f\"}"
	say after
	get
	get
	say_line "$line"
	id=$prompt
	end_turn
	until_stdin_ends
	;;
file_then_exit)
	begin
	get
	request 1 fs/write_text_file "{\"path\":\"$PWD/f\",\"content\":\"abc\"}"
	say after
	exit 0
	;;
burst)
	begin
	get
	say 1
	say 2
	say 3
	end_turn
	until_stdin_ends
	;;
floods)
	# Never reads again, and asks for answers without end.
	begin
	get
	line='{"jsonrpc":"2.0","id":1,"method":"x"}
'
	line=$line$line$line$line$line$line$line$line
	line=$line$line$line$line$line$line$line$line
	while :; do
		printf '%s' "$line" || exit 0
	done
	;;
stubborn)
	# Ignores SIGTERM and the end of stdin, and has a child.
	trap '' TERM
	begin
	get
	/bin/sh -c 'while :; do read -r x || sleep 1000; done' </dev/null &
	say "child $!"
	end_turn
	while :; do wait; done
	;;
esac
