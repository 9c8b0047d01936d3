# Writes the markdown of each example of the CommonMark specification to a file of its own:
#   awk -v folder=DIR -f spec_examples.awk spec.txt
/^```````````````````````````````` example/ { number++; inside = 1; text = ""; next }
inside && /^\.$/ {
	gsub(/→/, "\t", text)
	file = sprintf("%s/spec-%03d.md", folder, number)
	printf "%s", text > file
	close(file)
	inside = 0
}
inside { text = text $0 "\n" }
