#include "programs/repeated_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "programs/cut_lines.h"

namespace tessera {

RepeatedView::RepeatedView(double interval_s, uint32_t count, bool is_text)
    : interval_s_(interval_s),
      redraws_(is_text && isatty(STDOUT_FILENO) == 1),
      count_(count != 0 ? count
             : redraws_ ? kEndless
                        : 1),
      keys_(redraws_) {}

bool RepeatedView::Next() {
  if (!is_endless() && looks_ == count_) return false;
  if (looks_ != 0) key_ = keys_.Wait(interval_s_);
  if (key_ == 'q') return false;
  looks_ = is_endless() ? 1 : looks_ + 1;
  return true;
}

size_t RepeatedView::width() const {
  winsize size{};
  return redraws_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string RepeatedView::Drawn(const std::string& text) const {
  // From the upper left corner of an empty screen.
  return redraws_ ? "\033[H\033[2J" + CutLines(text, width()) : text;
}

}  // namespace tessera
