// The table of theory matches the expected values, and would show any difference.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/theory/rows.hpp"
#include "tests/theory/theory.hpp"

namespace gv {

TEST_CASE("every row of the table of theory is as expected", "[sim][theory]") {
  const std::string id(GENERATE(from_range(theory_subjects)).id);
  const std::vector<TheoryRow> rows = theory_rows(id);
  CHECK_FALSE(rows.empty());
  for (const TheoryRow& row : rows) {
    INFO(theory_text({row}));
    CHECK(row.id == id);
    CHECK(row.ok);
  }
}

TEST_CASE("the table of theory is the same every time", "[sim][theory]") {
  const std::string id = GENERATE("T6", "T7", "T10");
  CHECK(theory_text(theory_rows(id)) == theory_text(theory_rows(id)));
}

TEST_CASE("a row says where a number is too far from what is expected", "[theory]") {
  using theory::number;
  CHECK(number("T1", "near", 1.05, 1, 0.1, theory::closed_form).ok);
  CHECK_FALSE(number("T1", "far", 1.2, 1, 0.1, theory::closed_form).ok);
  CHECK_FALSE(number("T1", "none", std::nan(""), 1, 0.1, theory::closed_form).ok);
  CHECK_FALSE(theory::word("T1", "word", "diverges", "converges", theory::closed_form).ok);
  const std::string text = theory_text({number("T1", "far", 1.2, 1, 0.1, theory::closed_form)});
  CHECK(text.find("DIFFERS") != std::string::npos);
}

TEST_CASE("no line of the table of theory is wider than a page", "[theory]") {
  const std::string note(200, 'x');
  for (const std::string& text :
       {theory_heading(), theory_legend(), theory_text(theory_rows("T9")),
        theory_text(
            {theory::number("T1", "noted", 1, 1, 0.1, theory::closed_form, note + " " + note)})}) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      CHECK(end - at <= 120);
      at = end + 1;
    }
  }
}

}  // namespace gv
