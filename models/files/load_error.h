#pragma once
// LoadError: model files cannot be used. It has the file, the item in it (tensor, key or JSON path; may be
// empty) and the reason, and ends the load.
//
// The message is safe to print: control characters from the file are replaced and long names are cut.

#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise::models {

class LoadError : public std::runtime_error {
 public:
  LoadError(std::string_view file, std::string_view item, std::string_view reason)
      : std::runtime_error(compose(file, item, reason)), file_(file), item_(item), reason_(reason) {}

  const std::string& file() const { return file_; }
  const std::string& item() const { return item_; }
  const std::string& reason() const { return reason_; }

 private:
  static std::string printable(std::string_view text) {
    constexpr std::size_t kMaxLength = 400;
    std::string out(text.substr(0, kMaxLength));
    for (char& c : out) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    if (text.size() > kMaxLength) out += "...";
    return out;
  }

  static std::string compose(std::string_view file, std::string_view item, std::string_view reason) {
    std::string out = printable(file);
    if (!item.empty()) out += ": " + printable(item);
    return out + ": " + printable(reason);
  }

  std::string file_;
  std::string item_;
  std::string reason_;
};

}  // namespace reprise::models
