// Text of command lines as a manual page has it, in roff.
#pragma once

#include <string>

namespace tessera {

// Text as roff shows it: hyphens that can be copied, and nothing that begins a request. Newlines become blanks.
std::string RoffText(const std::string& text);

// The same in capitals.
std::string RoffHeading(std::string text);

// The footer of a --help: NOTES, and a section for each line that ends with a colon (manual.h). Empty for an empty one.
std::string RoffFooter(const std::string& footer);

}  // namespace tessera
