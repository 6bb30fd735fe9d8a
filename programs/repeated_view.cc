#include "programs/repeated_view.h"

#include <time.h>
#include <unistd.h>

namespace tessera {

RepeatedView::RepeatedView(double interval_s, uint32_t count, bool is_text)
    : interval_s_(interval_s),
      redraws_(is_text && isatty(STDOUT_FILENO) == 1),
      count_(count != 0 ? count
             : redraws_ ? kEndless
                        : 1) {}

bool RepeatedView::Next() {
  if (!is_endless() && looks_ == count_) return false;
  if (looks_ != 0) {
    const auto whole_s = static_cast<time_t>(interval_s_);
    const timespec wait = {whole_s, static_cast<long>((interval_s_ - static_cast<double>(whole_s)) * 1e9)};
    nanosleep(&wait, nullptr);
  }
  looks_ = is_endless() ? 1 : looks_ + 1;
  return true;
}

std::string RepeatedView::Drawn(const std::string& text) const {
  // From the upper left corner of an empty screen.
  return redraws_ ? "\033[H\033[2J" + text : text;
}

}  // namespace tessera
