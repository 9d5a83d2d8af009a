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
	case "y", "h", "d":
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
	rows := m.panes[m.focus].len()
	page := max(m.areas[m.focus].rows, 1)
	steps := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "ctrl+b": -page, "pgdown": page, "ctrl+f": page, "space": page,
		"home": -rows, "g": -rows, "end": rows, "G": rows,
	}
	if n, ok := steps[key]; ok {
		m.lists[m.focus].move(n, rows, m.panes[m.focus].key)
		if m.focus == paneUpdates && m.lists[m.focus].cursor == 0 {
			m.lists[m.focus].key = "" // stay at the newest
		}
	}
}

// open opens the row of the cursor.
func (m *model) open(page page) tea.Cmd {
	p, l := m.panes[m.focus], m.lists[m.focus]
	if l.cursor >= p.len() {
		return nil
	}
	m.detail = p.open(l.cursor)
	return m.detail.show(page)
}

// openPod opens the pod of the row of the cursor.
func (m *model) openPod(page page) tea.Cmd {
	p, l := m.panes[m.focus], m.lists[m.focus]
	if l.cursor >= p.len() {
		return nil
	}
	name := ""
	switch m.focus {
	case panePods:
		name = m.pods.shown[l.cursor].name
	case paneUpdates:
		name = m.updates.shown[l.cursor].pod
	case paneManifests:
		name = m.verdicts.shown[l.cursor].podName()
	}
	if name == "" {
		return nil
	}
	m.detail = m.podDetail(name)
	return m.detail.show(page)
}

func (m *model) pressInDetail(msg tea.KeyPressMsg) tea.Cmd {
	switch key := msg.String(); key {
	case "q", "esc", "backspace":
		m.detail = nil
	case "?":
		m.help = true
	case "y", "h", "d":
		if m.detail.pod != "" {
			return m.detail.show(pages[key])
		}
	case "tab":
		if m.detail.pod != "" {
			return m.detail.show((m.detail.active + 1) % pageCount)
		}
	case "g", "home":
		m.detail.view.GotoTop()
	case "G", "end":
		m.detail.view.GotoBottom()
	default:
		var cmd tea.Cmd
		m.detail.view, cmd = m.detail.view.Update(msg)
		return cmd
	}
	return nil
}
