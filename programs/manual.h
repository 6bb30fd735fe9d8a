// Manual pages of a program, made from what the program itself parses, as --help and --completion are.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

// Where a page belongs: a command that a user types, or a service.
inline constexpr int kCommandSection = 1;
inline constexpr int kServiceSection = 8;

// The page of `app` in roff, called `name`: its name, synopsis, options and footer. A line of the footer that ends with a colon
// begins a section; "word  text" is an entry of a list; other indented lines stand as they are. `also`: what is named at the end,
// such as "tessera(1)". Options of the group "" are left out. The page's date is $SOURCE_DATE_EPOCH, else today.
std::string ManualPage(const CLI::App& app, const std::string& name, int section, const std::string& also);

// Adds --manual DIRECTORY, which --help does not show: it writes the page of `app`, and one of each of its commands
// (NAME-COMMAND), into a directory that is there, and ends the program as --version does. A file that cannot be written is an
// error of the command line. For whoever makes packages; call it when all options and commands are known, or before: it looks
// when it is used.
void AddManual(CLI::App& app, int section);

}  // namespace tessera
