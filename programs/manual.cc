#include "programs/manual.h"

#include <stdlib.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>
#include <vector>

#include "programs/manual_text.h"
#include "programs/subcommands.h"

namespace tessera {
namespace {

std::string Bold(const std::string& text) { return "\\fB" + RoffText(text) + "\\fR"; }

std::string Date() {
  const char* const epoch = getenv("SOURCE_DATE_EPOCH");
  const time_t when = epoch != nullptr ? static_cast<time_t>(strtoll(epoch, nullptr, 10)) : time(nullptr);
  tm parts{};
  gmtime_r(&when, &parts);
  char text[32];
  return strftime(text, sizeof(text), "%Y-%m-%d", &parts) > 0 ? text : "";
}

std::vector<const CLI::Option*> Shown(const CLI::App& app, bool positional) {
  return app.get_options([&](const CLI::Option* option) {
    return !option->get_group().empty() && option->nonpositional() != positional && (!positional || option->get_positional());
  });
}

std::string PageName(const CLI::App& app, const CLI::App& command) { return app.get_name() + "-" + command.get_name(); }

void AddSynopsis(const CLI::App& app, const std::string& command, std::ostringstream& page) {
  page << ".SH SYNOPSIS\n" << Bold(command) << " [\\fIoptions\\fR]";
  if (!Commands(app).empty()) page << " \\fIcommand\\fR";
  for (const CLI::Option* option : Shown(app, true)) {
    const std::string name = "\\fI" + RoffText(option->get_name(true)) + "\\fR";
    page << " " << (option->get_required() ? name : "[" + name + "]");
  }
  page << "\n";
}

// With places in long choices where a line may end.
std::string Breakable(const std::string& text) {
  std::string breakable;
  for (const char letter : text) {
    breakable += letter;
    if (letter == ',' || letter == '|') breakable += "\\:";
  }
  return breakable;
}

void AddOptions(const CLI::App& app, std::ostringstream& page) {
  const CLI::Formatter words;  // says of an option's values what --help says
  for (const bool positional : {true, false}) {
    const std::vector<const CLI::Option*> options = Shown(app, positional);
    if (options.empty()) continue;
    page << ".SH " << (positional ? "ARGUMENTS" : "OPTIONS") << "\n";
    for (const CLI::Option* option : options) {
      page << ".TP\n"
           << Bold(words.make_option_name(option, positional)) << Breakable(RoffText(words.make_option_opts(option))) << "\n";
      page << RoffText(option->get_description()) << "\n";
    }
  }
}

std::string Reference(const std::string& name, int section) { return Bold(name) + "(" + std::to_string(section) + ")"; }

std::string WritePage(const std::string& directory, const std::string& name, int section, const std::string& page) {
  const std::string path = directory + "/" + name + "." + std::to_string(section);
  std::ofstream file(path, std::ios::trunc);
  file << page;
  file.close();
  return file ? "" : path + " cannot be written";
}

}  // namespace

std::string ManualPage(const CLI::App& app, const std::string& name, int section, const std::string& also) {
  std::string description = app.get_description();
  if (description.ends_with('.')) description.pop_back();
  std::ostringstream page;
  page << ".TH " << RoffHeading(name) << " " << section << " " << Date() << " \"Tessera " << TESSERA_VERSION << "\" Tessera\n"
       << ".ad l\n.nh\n"
       << ".SH NAME\n"
       << RoffText(name) << " \\- " << RoffText(description) << "\n";
  std::string command = name;
  if (app.get_parent() != nullptr) command = app.get_parent()->get_name() + " " + app.get_name();
  AddSynopsis(app, command, page);
  if (!Commands(app).empty()) {
    page << ".SH COMMANDS\n";
    for (const CLI::App* one : Commands(app)) {
      page << ".TP\n" << Reference(PageName(app, *one), section) << "\n" << RoffText(one->get_description()) << "\n";
    }
  }
  AddOptions(app, page);
  const std::string footer = app.get_footer();
  page << RoffFooter(footer);
  page << ".SH \"SEE ALSO\"\n" << also << "\n";
  return page.str();
}

void AddManual(CLI::App& app, int section) {
  app.add_option_function<std::string>(
         "--manual",
         [&app, section](const std::string& directory) {
           const std::string name = app.get_name();
           std::string also = name == "tessera" ? "" : Reference("tessera", kCommandSection);
           for (const CLI::App* command : Commands(app)) {
             also += (also.empty() ? "" : ",\n") + Reference(PageName(app, *command), section);
           }
           std::string wrong = WritePage(directory, name, section, ManualPage(app, name, section, also));
           for (const CLI::App* command : Commands(app)) {
             const std::string page = PageName(app, *command);
             if (wrong.empty()) {
               wrong = WritePage(directory, page, section, ManualPage(*command, page, section, Reference(name, section)));
             }
           }
           if (!wrong.empty()) throw CLI::ValidationError("--manual", wrong);
           throw CLI::CallForVersion("manual pages of " + name + " are in " + directory, 0);
         },
         "Write the manual pages into a directory, and exit")
      ->group("");
}

}  // namespace tessera
