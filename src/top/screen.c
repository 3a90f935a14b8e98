/* SPDX-License-Identifier: MIT */
#define NCURSES_WIDECHAR 1
#include "top/screen.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "top/model.h"

/* Last: <term.h> makes macros of many a word. */
#include <curses.h>
#include <term.h>

#define ESCAPE_DELAY_MS 25 /* keys of terminals come in one go; a person's Esc is not followed by more */

static SCREEN *terminal;
static bool has_colour;

/* ---- crashes: only what may be called in a handler */

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction before_crash[ARRAY_SIZE(crash_signals)];
static struct termios modes_before;
static char restore[256];

static void on_crash(int number)
{
	ssize_t n = write(STDOUT_FILENO, restore, strlen(restore));

	(void)n;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
	for (size_t i = 0; i < ARRAY_SIZE(crash_signals); i++) {
		if (crash_signals[i] == number)
			(void)sigaction(number, &before_crash[i], NULL);
	}
	/* For whoever had this signal before, as soon as this returns. */
	(void)raise(number);
}

static void add_restore(const char *capability)
{
	const char *text = tigetstr(capability);
	const size_t len = strlen(restore);

	/* Without delays it stands there as it is to be sent. */
	if (text && text != (char *)-1 && !strstr(text, "$<") && len + strlen(text) < sizeof(restore))
		strcpy(restore + len, text);
}

static void watch_crashes(void)
{
	struct sigaction action = { .sa_handler = on_crash };

	*restore = '\0';
	add_restore("sgr0");
	add_restore("cnorm");
	add_restore("rmkx");
	add_restore("rmcup");
	for (size_t i = 0; i < ARRAY_SIZE(crash_signals); i++)
		(void)sigaction(crash_signals[i], &action, &before_crash[i]);
}

static void forget_crashes(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(crash_signals); i++)
		(void)sigaction(crash_signals[i], &before_crash[i], NULL);
}

/* ---- the terminal */

static void start_colours(void)
{
	const char *no = getenv("NO_COLOR");

	has_colour = (!no || !*no) && has_colors() && start_color() == OK && use_default_colors() == OK;
	if (!has_colour)
		return;
	(void)init_pair(GRID_ALARM, COLOR_RED, -1);
	(void)init_pair(GRID_WARNING, COLOR_YELLOW, -1);
	(void)init_pair(GRID_GOOD, COLOR_GREEN, -1);
	(void)init_pair(GRID_TITLE, COLOR_CYAN, -1);
}

int screen_open(char *reterr, size_t size)
{
	const char *name = getenv("TERM"), *cup;
	struct sigaction stop;

	if (tcgetattr(STDIN_FILENO, &modes_before) < 0)
		return -errno;
	(void)sigaction(SIGTSTP, NULL, &stop);
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal) {
		(void)snprintf(reterr, size, "terminal \"%s\" is not known here: set TERM, or use --once", name ?: "");
		return -EINVAL;
	}
	/* The library's handler would draw whatever else is going on. */
	(void)sigaction(SIGTSTP, &stop, NULL);
	cup = tigetstr("cup");
	if (!cup || cup == (char *)-1) {
		screen_close();
		(void)snprintf(reterr, size, "terminal \"%s\" cannot place the cursor: set TERM, or use --once", name ?: "");
		return -EINVAL;
	}
	watch_crashes();
	start_colours();
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)intrflush(stdscr, FALSE);
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(ESCAPE_DELAY_MS);
	(void)curs_set(0);
	return 0;
}

void screen_close(void)
{
	if (!terminal)
		return;
	/* Of terminals without a second screen: the shell goes on in the last line. */
	(void)move(LINES - 1, 0);
	(void)clrtoeol();
	(void)refresh();
	(void)endwin();
	delscreen(terminal);
	terminal = NULL;
	forget_crashes();
}

void screen_size(size_t *ret_width, size_t *ret_height)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	*ret_width = (size_t)MAX(width, 0);
	*ret_height = (size_t)MAX(height, 0);
}

void screen_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		(void)resizeterm(size.ws_row, size.ws_col);
	screen_spoilt();
}

void screen_spoilt(void)
{
	(void)reset_prog_mode();
	(void)clearok(curscr, TRUE);
}

void screen_suspend(void)
{
	sigset_t stop, old;

	(void)def_prog_mode();
	(void)endwin();
	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGTSTP);
	(void)raise(SIGTSTP);
	/* Here it stops. */
	(void)pthread_sigmask(SIG_UNBLOCK, &stop, &old);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	screen_resize();
	(void)refresh();
}

/* ---- drawing */

static attr_t attributes(const struct grid_cell *cell)
{
	static const attr_t plain[GRID_STYLES] = { [GRID_BOLD] = A_BOLD, [GRID_DIM] = A_DIM, [GRID_TITLE] = A_UNDERLINE,
						   [GRID_ALARM] = A_BOLD };

	return plain[cell->style] | (cell->is_chosen ? A_REVERSE : A_NORMAL);
}

static short colour(const struct grid_cell *cell)
{
	return has_colour && cell->style >= GRID_TITLE ? (short)cell->style : 0;
}

void screen_draw(const struct grid *g)
{
	(void)erase();
	for (size_t row = 0; row < g->height; row++) {
		for (size_t i = 0; i < g->width; i++) {
			const struct grid_cell *cell = &g->cells[row * g->width + i];
			cchar_t c;

			/* A blank stands there already, and the other half of a character comes with it. */
			if (cell->width == 0 || (!cell->is_set && !cell->is_chosen))
				continue;
			if (setcchar(&c, cell->chars, attributes(cell), colour(cell), NULL) == OK)
				(void)mvadd_wch((int)row, (int)i, &c);
		}
	}
	(void)refresh();
}

/* ---- keys */

static uint32_t function_key(wint_t key)
{
	switch (key) {
	case KEY_UP: return TOP_KEY_UP;
	case KEY_DOWN: return TOP_KEY_DOWN;
	case KEY_LEFT: return TOP_KEY_LEFT;
	case KEY_RIGHT: return TOP_KEY_RIGHT;
	case KEY_PPAGE: return TOP_KEY_PAGE_UP;
	case KEY_NPAGE: return TOP_KEY_PAGE_DOWN;
	case KEY_HOME: return TOP_KEY_HOME;
	case KEY_END: return TOP_KEY_END;
	case KEY_BACKSPACE: return TOP_KEY_ERASE;
	case KEY_ENTER: return TOP_KEY_ENTER;
	case KEY_F(1): return '?';
	case KEY_F(10): return 'q';
	default: return 0;
	}
}

bool screen_key(uint32_t *ret)
{
	wint_t key;
	const int r = get_wch(&key);

	if (r == ERR)
		return false;
	if (r == KEY_CODE_YES)
		*ret = function_key(key);
	else
		*ret = key == '\r' ? TOP_KEY_ENTER : key == 127 || key == '\b' ? TOP_KEY_ERASE : (uint32_t)key;
	return true;
}
