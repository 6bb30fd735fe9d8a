#include "programs/completion.h"

#include <CLI/CLI.hpp>

#include <vector>

#include "programs/subcommands.h"

namespace tessera {
namespace {

// Options as people type them: "--server", "-o".
std::vector<std::string> Names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// "a b" for a type whose description has {a,b}; empty for any other.
std::string Values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t start = type.find('{');
  const size_t end = type.find('}');
  if (start == std::string::npos || end == std::string::npos) return "";
  std::string values = type.substr(start + 1, end - start - 1);
  for (char& letter : values) {
    if (letter == ',') letter = ' ';
  }
  return values;
}

std::vector<const CLI::Option*> Options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

// What shells call the function that completes for `app`.
std::string Function(const CLI::App& app) {
  std::string name = "_" + app.get_name();
  for (char& letter : name) {
    if (letter == '-') letter = '_';
  }
  return name;
}

// All words that may follow a command: its options, and the values of its positional argument.
std::string Words(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : Options(command)) {
    for (const std::string& name : Names(*option)) words += name + " ";
    if (Names(*option).empty()) words += Values(*option) + " ";
  }
  return words;
}

// Lines of a `case` over "COMMAND PREVIOUS-WORD", for the options of `command` that have a choice of values.
std::string BashValues(const std::string& name, const CLI::App& command) {
  std::string lines;
  for (const CLI::Option* option : Options(command)) {
    if (Values(*option).empty()) continue;
    for (const std::string& word : Names(*option))
      lines += "    '" + name + " " + word + "') words='" + Values(*option) + "' ;;\n";
  }
  return lines;
}

std::string Bash(const CLI::App& app) {
  std::string commands;
  std::string cases;
  std::string values = BashValues("", app);
  std::string all;
  for (const CLI::App* command : Commands(app)) {
    commands += (commands.empty() ? "    " : "|") + command->get_name();
    cases += "    " + command->get_name() + ") words='" + Words(*command) + "' ;;\n";
    values += BashValues(command->get_name(), *command);
    all += command->get_name() + " ";
  }
  if (!commands.empty()) commands += ") [ -n \"$command\" ] || command=${COMP_WORDS[i]} ;;\n";
  return Function(app) + R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    --) # what follows is a command line of its own
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
      return ;;
)" + commands +
         R"(    esac
  done
  case $command in
    '') words=')" +
         all + Words(app) + R"(' ;;
)" + cases +
         R"(  esac
  case "$command $previous" in
)" + values +
         R"(    '') ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F )" +
         Function(app) + " " + app.get_name() + "\n";
}

// Text inside single quotes of a zsh or fish script.
std::string Quoted(std::string text, bool brackets) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\'') text[at] = '`';
    if (brackets && (text[at] == '[' || text[at] == ']' || text[at] == ':')) text.insert(at++, "\\");
  }
  return text;
}

std::string ZshArguments(const CLI::App& command) {
  std::string line = "_arguments -S";
  for (const CLI::Option* option : Options(command)) {
    const std::string values = Values(*option);
    const std::string what = option->get_type_size() == 0 ? "" : values.empty() ? ":value:_files" : ":value:(" + values + ")";
    for (const std::string& name : Names(*option)) {
      line += " \\\n      '" + name + "[" + Quoted(option->get_description(), true) + "]" + what + "'";
    }
    if (Names(*option).empty() && !values.empty()) line += " \\\n      '1:" + option->get_name() + ":(" + values + ")'";
    if (Names(*option).empty() && values.empty()) line += " \\\n      '*:::command:_normal'";
  }
  return line;
}

std::string Zsh(const CLI::App& app) {
  std::string list;
  std::string cases;
  for (const CLI::App* command : Commands(app)) {
    list += "    '" + command->get_name() + ":" + Quoted(command->get_description(), true) + "'\n";
    cases += "  " + command->get_name() + ")\n    " + ZshArguments(*command) + " ;;\n";
  }
  std::string body = "  " + ZshArguments(app) + "\n";
  if (!list.empty()) {
    body = "  local -a commands=(\n" + list + "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    " +
           ZshArguments(app) +
           "\n    return\n  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" + cases +
           "  esac\n";
  }
  const std::string function = Function(app);
  return "#compdef " + app.get_name() + "\n" + function + "() {\n" + body + "}\n[ \"$funcstack[1]\" = " + function + " ] && " +
         function + " \"$@\" || compdef " + function + " " + app.get_name() + "\n";
}

// `line` is how each begins: the program, and when it holds.
std::string FishOptions(const std::string& line, const CLI::App& command) {
  std::string script;
  for (const CLI::Option* option : Options(command)) {
    if (Names(*option).empty()) {
      if (!Values(*option).empty()) script += line + " -f -a '" + Values(*option) + "'\n";
      continue;
    }
    script += line;
    for (const std::string& name : option->get_snames()) script += " -s " + name;
    for (const std::string& name : option->get_lnames()) script += " -l " + name;
    if (option->get_type_size() != 0) script += Values(*option).empty() ? " -r" : " -x -a '" + Values(*option) + "'";
    script += " -d '" + Quoted(option->get_description(), false) + "'\n";
  }
  return script;
}

std::string Fish(const CLI::App& app) {
  const std::string line = "complete -c " + app.get_name();
  if (Commands(app).empty()) return FishOptions(line, app);
  const std::string first = line + " -n __fish_use_subcommand";
  std::string script = first + " -f\n" + FishOptions(first, app);
  for (const CLI::App* command : Commands(app)) {
    script += first + " -a " + command->get_name() + " -d '" + Quoted(command->get_description(), false) + "'\n";
    script += FishOptions(line + " -n '__fish_seen_subcommand_from " + command->get_name() + "'", *command);
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  return shell == "bash" ? Bash(app) : shell == "zsh" ? Zsh(app) : shell == "fish" ? Fish(app) : "";
}

}  // namespace tessera
