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

// list is the cursor of a pane. It stays on a row by the row's key while rows come and go.
type list struct {
	cursor, offset int
	key            string
}

// place moves the cursor to the row with its key, if it is still there, and scrolls so that
// the cursor is among the visible rows.
func (l *list) place(rows, visible int, key func(int) string) {
	if rows == 0 {
		*l = list{}
		return
	}
	l.cursor = min(max(l.cursor, 0), rows-1)
	if l.key != "" && key(l.cursor) != l.key {
		for i := range rows {
			if key(i) == l.key {
				l.cursor = i
				break
			}
		}
	}
	l.scroll(rows, visible)
}

// scroll keeps the offset as it is, if the cursor is visible.
func (l *list) scroll(rows, visible int) {
	visible = max(visible, 1)
	l.offset = min(l.offset, l.cursor, max(rows-visible, 0))
	l.offset = max(l.offset, l.cursor-visible+1, 0)
}

// move moves the cursor by n rows.
func (l *list) move(n, rows int, key func(int) string) {
	if rows == 0 {
		return
	}
	l.cursor = min(max(l.cursor+n, 0), rows-1)
	l.key = key(l.cursor)
}
