// What an attacker tries who has taken over a worker, each by a name: for tests that enter the sandbox themselves, and for
// taken_over_driver.cc, which tries in a worker of the product.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct Attempt {
  // Of a process of an ordinary user that is in no sandbox.
  enum class Otherwise {
    kSucceeds,
    kFails,   // with another errno than EPERM: a call that is tried with wrong arguments, or that older kernels lack
    kDepends  // on settings of the machine
  };
  const char* name;
  // True when the attacker got what it wanted; else errno says how it was refused. `argument` is a process where the name
  // is of a call that takes one (another number where log_attempts.h says so), and means nothing else.
  bool (*act)(long argument);
  Otherwise otherwise = Otherwise::kSucceeds;
};

const std::vector<Attempt>& Attempts();

// "succeeded", or "refused: " and the words for errno. `words`: a name, and an argument if the attempt takes one.
std::string OutcomeOf(const std::string& words);

}  // namespace tessera
