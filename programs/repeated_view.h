// What a command shows again and again: on a terminal each look takes the place of the one before, in lines that fit, until q is
// pressed. Main thread.
//
//   RepeatedView view(interval_s, count, true);
//   while (view.Next()) print(view.Drawn(text));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "programs/key_input.h"

namespace tessera {

class RepeatedView {
 public:
  static constexpr uint32_t kEndless = UINT32_MAX;

  // `count`: looks; 0: endless on a terminal, else one. `is_text`: for people, else nothing is drawn over. Asks whether stdout is
  // a terminal.
  RepeatedView(double interval_s, uint32_t count, bool is_text);

  // Whether there is a further look; waits for it, but for the first. A key makes it come at once, and q the last one.
  bool Next();
  // The key that was pressed since the look before; '\0': none.
  char key() const { return key_; }
  // Characters in a line of the terminal; 0: there is none, or it does not say.
  size_t width() const;
  // `text` as it is printed.
  std::string Drawn(const std::string& text) const;
  bool redraws() const { return redraws_; }
  bool is_endless() const { return count_ == kEndless; }

 private:
  const double interval_s_;
  const bool redraws_;
  const uint32_t count_;
  const KeyInput keys_;
  uint32_t looks_ = 0;
  char key_ = '\0';
};

}  // namespace tessera
