// Keys that are pressed on a terminal, without Return, and not shown there.
//
// From the first object on until the last one's end, or the end of the process by a signal of the terminal or SIGTERM, the
// terminal of stdin is in that state; then it is as it was. Main thread.
#pragma once

#include <cstdint>

namespace tessera {

class KeyInput {
 public:
  // `wanted` false, or stdin no terminal, or one of which this process is not in the foreground: there are no keys.
  explicit KeyInput(bool wanted);
  ~KeyInput();
  KeyInput(const KeyInput&) = delete;
  KeyInput& operator=(const KeyInput&) = delete;

  // Waits so long for a key. '\0': none was pressed. Keys that are more than one byte (arrows) are none.
  char Wait(double seconds) const;

 private:
  bool on_ = false;
};

}  // namespace tessera
