use proptest::prelude::*;

use super::*;

fn markers() -> Vec<String> {
    vec!["data-page".to_owned(), "data-item".to_owned()]
}

#[test]
fn marked_values_and_images_come_in_the_order_of_the_page() {
    let html = br#"<!DOCTYPE html><!-- <img src="/no"> --><body data-page="home">
        <a href="/shop/product_detail?item=7" data-item="7">x</a><a data-item='8'>y</a><A DATA-ITEM=9>z</A>
        <img alt="a > b" src="/shop/a.png"><IMG SRC=/shop/b.png/><img src="/shop/a.png"><img src="/c?x=1&amp;y=2"/>
        <script>document.write('<img src="/never">')</script><img src="late.png"> 1 < 2"#;
    let page = read(html, &markers());
    let texts = |values: &[Box<str>]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&page.marked[0]), ["home"]);
    assert_eq!(texts(&page.marked[1]), ["7", "8", "9"]);
    assert_eq!(
        texts(&page.images),
        ["/shop/a.png", "/shop/b.png/", "/c?x=1&y=2", "late.png"]
    );
}

#[test]
fn only_links_to_this_server_are_followed() {
    let path = |link| local_path(link, "/shop/home?x=/", "test:80");
    assert_eq!(path("/a"), Some("/a".to_owned()));
    assert_eq!(path("a.png"), Some("/shop/a.png".to_owned()));
    assert_eq!(path("http://TEST:80/a#b"), Some("/a".to_owned()));
    for elsewhere in [
        "http://other/a",
        "//other/a",
        "https://test:80/a",
        "data:image/png;base64,/",
        "",
        "#a",
        "/a b",
        "/\u{e4}",
        "http://test:80",
    ] {
        assert_eq!(path(elsewhere), None, "{elsewhere}");
    }
}

proptest! {
    #[test]
    fn no_page_makes_the_reader_panic_or_take_more_than_its_share(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "img", " src", "=", "\"", "'", "/", " ", "<!--", "-->", "<script", "</script>", "data-item", "\u{e4}", "a", "\0",
        ]), 0..200),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut html = pieces.concat().into_bytes();
        html.extend(bytes);
        let page = read(&html, &markers());
        for link in &page.images {
            local_path(link, "/a/b", "test");
        }
        let taken: usize = page.marked.iter().flatten().map(|v| v.len()).sum();
        prop_assert!(taken <= html.len());
        prop_assert!(page.images.len() <= MOST);
    }
}
