# The speed of this server beside the others', from `go test -bench` with -count:
# the best of several runs of each, since a busy computer only ever takes away.
/^Benchmark/ {
	split($1, name, "/")
	sub(/-[0-9]+$/, "", name[3])
	key = name[1] "/" name[2] "/" name[3]
	for (i = 3; i < NF; i++)
		if ($(i + 1) == "MB/s" && $i > best[key]) best[key] = $i
}
function ratio(label, bench, other, clients) {
	ours = best["Benchmark" bench "/machined/" clients]
	theirs = best["Benchmark" bench "/" other "/" clients]
	if (theirs > 0)
		printf "%s_ratio_%s=%.2f (of %s, %.0f MB/s to %.0f)\n", label, clients, ours / theirs, other, ours, theirs
	else
		printf "%s_ratio_%s= (no %s to compare with)\n", label, clients, other
}
END {
	ratio("tftp", "TFTP", "dnsmasq", 1)
	ratio("tftp", "TFTP", "dnsmasq", 16)
	ratio("http", "HTTP", "nginx", 1)
	ratio("http", "HTTP", "nginx", 16)
}
