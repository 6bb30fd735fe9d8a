#include "netaware/cli/completion_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "netaware/cli/exit_codes.h"

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

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// All words that may follow a command: its options, and the values of its positional argument.
std::string Words(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : Names(*option)) words += name + " ";
    if (Names(*option).empty()) words += Values(*option) + " ";
  }
  return words;
}

std::string Bash(const CLI::App& app) {
  std::string commands;
  std::string cases;
  std::string values;
  for (const CLI::App* command : Commands(app)) {
    commands += (commands.empty() ? "" : "|") + command->get_name();
    cases += "    " + command->get_name() + ") words='" + Words(*command) + "' ;;\n";
    for (const CLI::Option* option : command->get_options()) {
      if (Values(*option).empty()) continue;
      for (const std::string& name : Names(*option)) {
        values += "    '" + command->get_name() + " " + name + "') words='" + Values(*option) + "' ;;\n";
      }
    }
  }
  std::string all;
  for (const CLI::App* command : Commands(app)) all += command->get_name() + " ";
  return R"(_tessera() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    --) # what follows is a command line of its own
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
      return ;;
    )" + commands + R"() [ -n "$command" ] || command=${COMP_WORDS[i]} ;;
    esac
  done
  case $command in
    '') words=')" + all + Words(app) + R"(' ;;
)" + cases + R"(  esac
  case "$command $previous" in
)" + values + R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tessera tessera
)";
}

// Text inside single quotes of a zsh or fish script.
std::string Quoted(std::string text, bool brackets) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\'') text[at] = '`';
    if (brackets && (text[at] == '[' || text[at] == ']' || text[at] == ':')) text.insert(at++, "\\");
  }
  return text;
}

std::string Zsh(const CLI::App& app) {
  std::string list;
  std::string cases;
  for (const CLI::App* command : Commands(app)) {
    list += "    '" + command->get_name() + ":" + Quoted(command->get_description(), true) + "'\n";
    cases += "  " + command->get_name() + ")\n    _arguments -S";
    for (const CLI::Option* option : command->get_options()) {
      const std::string values = Values(*option);
      const std::string what = option->get_type_size() == 0 ? "" : values.empty() ? ":value:_files" : ":value:(" + values + ")";
      for (const std::string& name : Names(*option)) {
        cases += " \\\n      '" + name + "[" + Quoted(option->get_description(), true) + "]" + what + "'";
      }
      if (Names(*option).empty() && !values.empty()) cases += " \\\n      '1:" + option->get_name() + ":(" + values + ")'";
      if (Names(*option).empty() && values.empty()) cases += " \\\n      '*:::command:_normal'";
    }
    cases += " ;;\n";
  }
  return "#compdef tessera\n_tessera() {\n  local -a commands=(\n" + list +
         "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    _arguments '--help[print help]' '--version[print the "
         "version]'\n    return\n  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" +
         cases + "  esac\n}\n[ \"$funcstack[1]\" = _tessera ] && _tessera \"$@\" || compdef _tessera tessera\n";
}

std::string FishOption(const std::string& condition, const CLI::Option& option) {
  if (Names(option).empty()) {
    return Values(option).empty() ? "" : "complete -c tessera -n '" + condition + "' -f -a '" + Values(option) + "'\n";
  }
  std::string line = "complete -c tessera -n '" + condition + "'";
  for (const std::string& name : option.get_snames()) line += " -s " + name;
  for (const std::string& name : option.get_lnames()) line += " -l " + name;
  if (option.get_type_size() != 0) line += Values(option).empty() ? " -r" : " -x -a '" + Values(option) + "'";
  return line + " -d '" + Quoted(option.get_description(), false) + "'\n";
}

std::string Fish(const CLI::App& app) {
  std::string script = "complete -c tessera -n __fish_use_subcommand -f\n";
  for (const CLI::Option* option : app.get_options()) script += FishOption("__fish_use_subcommand", *option);
  for (const CLI::App* command : Commands(app)) {
    script += "complete -c tessera -n __fish_use_subcommand -a " + command->get_name() + " -d '" +
              Quoted(command->get_description(), false) + "'\n";
    const std::string condition = "__fish_seen_subcommand_from " + command->get_name();
    for (const CLI::Option* option : command->get_options()) script += FishOption(condition, *option);
  }
  return script;
}

}  // namespace

int CompletionCommand(const CLI::App& app, const std::string& shell) {
  std::fputs((shell == "bash" ? Bash(app) : shell == "zsh" ? Zsh(app) : Fish(app)).c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
