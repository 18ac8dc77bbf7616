// Package near compares a misspelt name with those that exist.
package near

import "strings"

// Distance is Levenshtein's, in bytes.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		corner := row[0]
		row[0] = i + 1
		for j := range b {
			above := row[j+1]
			if a[i] != b[j] {
				corner++
			}
			row[j+1] = min(corner, above+1, row[j]+1)
			corner = above
		}
	}
	return row[len(b)]
}

// Best returns the candidate that is most like a word, whatever the case of both; "" when none is much like it.
func Best(word string, candidates []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}
