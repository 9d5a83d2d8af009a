package top

import (
	tea "charm.land/bubbletea/v2"
)

// press handles a key.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.typeFilter(key, msg.Text)
		return nil
	case m.help:
		m.help = false
		return nil
	case m.detail != nil:
		return m.pressInDetail(msg)
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "/":
		m.typing = true
	case "esc":
		m.setFilter("")
	case "tab", "right", "l":
		m.focus = (m.focus + 1) % panes
	case "shift+tab", "left":
		m.focus = (m.focus + panes - 1) % panes
	case "1", "2", "3", "4", "5":
		m.focus = int(key[0] - '1')
	case "enter":
		return m.open(pageYAML)
	case "y", "h", "d", "w":
		return m.openPod(pages[key])
	default:
		m.navigate(key)
	}
	return nil
}

// typeFilter edits the filter.
func (m *model) typeFilter(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace", "ctrl+h":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.setFilter(string(runes[:len(runes)-1]))
		}
	case "ctrl+u":
		m.setFilter("")
	case "up", "down", "pgup", "pgdown":
		m.navigate(key)
	default:
		if text != "" {
			m.setFilter(m.filter + clean(text))
		}
	}
}

// navigate moves the cursor of the focused pane.
func (m *model) navigate(key string) {
	p := m.panes[m.focus]
	if n := steps(key, p.height, len(p.shown)); n != 0 {
		p.move(n)
		if m.focus == paneUpdates && p.cursor == 0 {
			p.key = "" // stay at the newest
		}
	}
}

// steps returns by how many rows a key moves.
func steps(key string, page, rows int) int {
	switch key {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "ctrl+b":
		return -max(page, 1)
	case "pgdown", "ctrl+f", "space":
		return max(page, 1)
	case "home", "g":
		return -rows
	case "end", "G":
		return rows
	}
	return 0
}

// open opens the row of the cursor.
func (m *model) open(page page) tea.Cmd {
	r := m.panes[m.focus].selected()
	if r == nil || r.group {
		return nil
	}
	m.detail = r.open()
	return m.detail.show(page)
}

// openPod opens the pod of the row of the cursor. For a row without a pod, the detail that enter opens has the reasons.
func (m *model) openPod(page page) tea.Cmd {
	switch r := m.panes[m.focus].selected(); {
	case r != nil && r.pod != "":
		m.detail = m.podDetail(r.pod)
		return m.detail.show(page)
	case page == pageWhy:
		return m.open(page)
	}
	return nil
}

func (m *model) pressInDetail(msg tea.KeyPressMsg) tea.Cmd {
	switch key := msg.String(); key {
	case "q", "esc", "backspace":
		m.detail = nil
	case "?":
		m.help = true
	case "y", "h", "d", "w":
		if m.detail.pod != "" {
			return m.detail.show(pages[key])
		}
	case "tab":
		if m.detail.pod != "" {
			return m.detail.show((m.detail.active + 1) % pageCount)
		}
	default:
		m.detail.offset += steps(key, m.detailHeight(), len(m.detail.wrapped))
	}
	return nil
}
