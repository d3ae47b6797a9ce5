use super::{External, ExternalTag};

#[test]
fn an_index_is_one_threads_until_it_is_given_back() {
    let external = External::new(4, 3);
    let take = || {
        let mut prepared = None;
        let taken = external.take(|index| prepared = Some(index));
        assert_eq!(prepared, taken);
        taken
    };
    assert_eq!(external.count(), 0);
    assert_eq!([(); 4].map(|()| take()), [Some(4), Some(5), Some(6), None]);
    assert_eq!(external.count(), 3);
    external.give_back(6);
    external.give_back(4);
    assert_eq!(external.count(), 1);
    assert_eq!([(); 3].map(|()| take()), [Some(4), Some(6), None]);
}

#[test]
fn a_job_processor_keeps_its_tag_which_is_an_external_threads() {
    let [one, another] = [(); 2].map(|()| ExternalTag::default());
    let [tag, other] = [&one, &another].map(|tag| tag.get().unwrap());
    assert!(tag.is_external() && other.is_external() && tag != other);
    assert_eq!(one.get(), Some(tag));
}
