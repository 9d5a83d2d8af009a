package top

// wideWidth is the width from which the panes are in two columns.
const wideWidth = 150

// share is what a pane wants of the height of a column.
type share struct {
	// least is the height that the pane gets first, want the height that it can use.
	least, want int
	// weight is the pane's part of what is left.
	weight int
}

// divide divides the height among panes. What no pane wants goes to the last.
func divide(height int, shares []share) []int {
	heights := make([]int, len(shares))
	give := func(limit func(share) int) {
		for height > 0 {
			next := -1
			for i, s := range shares {
				if heights[i] < limit(s) && (next < 0 || heights[i]*shares[next].weight < heights[next]*s.weight) {
					next = i
				}
			}
			if next < 0 {
				return
			}
			heights[next]++
			height--
		}
	}
	give(func(s share) int { return min(s.least, s.want) })
	give(func(s share) int { return s.want })
	if len(heights) > 0 {
		heights[len(heights)-1] += height
	}
	return heights
}
