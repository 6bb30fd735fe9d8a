// Words of a command line that nobody knows, and the known ones that may have been meant. Main thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tessera {

// "there is no command 'stauts': the nearest is 'status'"; empty: `app` has the command that the first of `words` is, has none at
// all, or `words` begin with an option. To be asked before `app` parses them, which says less.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& words);

// What `error` of `app`, or of its command that was parsed, says; and for an unknown option, and for a value that is none of a
// list, the nearest known one.
std::string WithNearest(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tessera
