// Replaces control characters by their hexadecimal codes.
#include "base/printable.hpp"

namespace gv {
namespace {

constexpr char digits[] = "0123456789abcdef";

/// The first byte of the control characters U+0080 to U+009F in UTF-8. Their second byte is from
/// 0x80 to 0x9f.
constexpr unsigned char latin_lead = 0xc2;

bool is_latin_control(unsigned char byte) { return byte >= 0x80 && byte < 0xa0; }

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string out;
  unsigned char before = 0;
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control =
        byte < 0x20 || byte == 0x7f || (before == latin_lead && is_latin_control(byte));
    if (is_control) {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
    before = byte;
  }
  return text.size() > bytes_max ? out + "..." : out;
}

}  // namespace gv
