#include "programs/manual_text.h"

#include <algorithm>
#include <sstream>

namespace tessera {

std::string RoffHeading(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return RoffText(text);
}

std::string RoffText(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else if (letter == '\n') {
      escaped += ' ';
    } else {
      escaped += letter;
    }
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

namespace {

// One line of a footer: "   term  text".
struct Line {
  size_t indent = 0;
  std::string term;  // empty: the line has no gap of two blanks
  std::string text;  // behind the gap, else all of it
};

Line Split(const std::string& text) {
  Line line;
  line.indent = std::min(text.find_first_not_of(' '), text.size());
  const std::string rest = text.substr(line.indent);
  const size_t gap = rest.find("  ");
  if (gap == std::string::npos) {
    line.text = rest;
  } else {
    line.term = rest.substr(0, gap);
    line.text = rest.substr(std::min(rest.find_first_not_of(' ', gap), rest.size()));
  }
  return line;
}

class Footer {
 public:
  std::string Roff(const std::string& footer) {
    std::istringstream lines(footer);
    for (std::string line; std::getline(lines, line);) Add(line);
    Verbatim(false);
    return roff_.str();
  }

 private:
  void Add(const std::string& text) {
    const Line line = Split(text);
    const bool is_heading = line.indent == 0 && line.term.empty() && text.ends_with(':');
    if (roff_.str().empty() && !is_heading) roff_ << ".SH NOTES\n";
    const bool goes_on = term_indent_ != kNone && line.indent > term_indent_;
    if (text.empty()) {
      Verbatim(false);
      wants_paragraph_ = true;
      term_indent_ = kNone;
    } else if (is_heading) {
      Verbatim(false);
      roff_ << ".SH " << RoffHeading(text.substr(0, text.size() - 1)) << "\n";
      wants_paragraph_ = false;
      term_indent_ = kNone;
      examples_ = text.starts_with("Example");
    } else if (examples_ && line.indent > 0) {
      Verbatim(true);
      roff_ << RoffText(text.substr(2)) << "\n";
    } else if (goes_on) {
      roff_ << RoffText(line.term.empty() ? line.text : line.term + " " + line.text) << "\n";
    } else if (!line.term.empty()) {
      Verbatim(false);
      roff_ << ".TP\n"
            << "\\fB" << RoffText(line.term) << "\\fR"
            << "\n"
            << RoffText(line.text) << "\n";
      term_indent_ = line.indent;
      wants_paragraph_ = false;
    } else if (line.indent > 0) {
      Verbatim(true);
      roff_ << RoffText(text.substr(line.indent)) << "\n";
    } else {
      Verbatim(false);
      if (wants_paragraph_ || term_indent_ != kNone) roff_ << ".PP\n";
      wants_paragraph_ = false;
      term_indent_ = kNone;
      roff_ << RoffText(text) << "\n";
    }
  }

  // Begins or ends lines that stand as they are.
  void Verbatim(bool wanted) {
    if (wanted == verbatim_) return;
    verbatim_ = wanted;
    if (wanted && wants_paragraph_) roff_ << ".PP\n";
    roff_ << (wanted ? ".nf\n" : ".fi\n");
    wants_paragraph_ = !wanted;
  }

  static constexpr size_t kNone = std::string::npos;
  std::ostringstream roff_;
  size_t term_indent_ = kNone;  // of the entry that the next line may go on
  bool verbatim_ = false;
  bool examples_ = false;
  bool wants_paragraph_ = false;
};

}  // namespace

std::string RoffFooter(const std::string& footer) { return Footer().Roff(footer); }

}  // namespace tessera
