//! Directories, links, names.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::pin::Pin;

use fs_support::{Dir, check_error, everywhere, poll_once};
use futures_core::Stream;
use runtime::fs;
use support::{build, each_kind};

#[test]
fn directories_are_made_and_removed() {
    everywhere(async || {
        let dir = Dir::new();
        fs::create_dir(dir.join("a")).await.unwrap();
        let again = fs::create_dir(dir.join("a")).await;
        check_error(again, ErrorKind::AlreadyExists, Some(libc::EEXIST), &["create directory", "/a\""]);
        fs::create_dir_all(dir.join("a/b/c")).await.unwrap();
        fs::create_dir_all(dir.join("a/b/c")).await.unwrap();
        assert!(dir.join("a/b/c").is_dir());
        let full = fs::remove_dir(dir.join("a")).await;
        check_error(full, ErrorKind::DirectoryNotEmpty, Some(libc::ENOTEMPTY), &["remove directory", "/a\""]);
        fs::remove_dir(dir.join("a/b/c")).await.unwrap();
        dir.file("a/b/file", "");
        fs::remove_dir_all(dir.join("a")).await.unwrap();
        assert!(!fs::try_exists(dir.join("a")).await.unwrap());
        let gone = fs::remove_dir_all(dir.join("a")).await;
        check_error(gone, ErrorKind::NotFound, Some(libc::ENOENT), &["remove directory", "/a\""]);
    });
}

#[test]
fn a_builder_makes_what_it_is_told() {
    everywhere(async || {
        let dir = Dir::new();
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        assert_eq!(builder.create(dir.join("a/b")).await.unwrap_err().kind(), ErrorKind::NotFound);
        builder.recursive(true).create(dir.join("a/b")).await.unwrap();
        builder.create(dir.join("a/b")).await.unwrap();
        assert_eq!(std::fs::metadata(dir.join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(builder.recursive(false).create(dir.join("a/b")).await.is_err());
    });
}

#[test]
fn files_are_opened_as_the_options_say() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(options.open(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);

        let mut append = fs::OpenOptions::new().append(true).open(&path).await.unwrap();
        std::fs::write(&path, "before ").unwrap();
        runtime::io::AsyncWriteExt::write_all(&mut append, b"after").await.unwrap();
        runtime::io::AsyncWriteExt::flush(&mut append).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before after");

        fs::OpenOptions::new().write(true).truncate(true).open(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);

        std::os::unix::fs::symlink(&path, dir.join("link")).unwrap();
        let options = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).clone();
        options.open(&path).await.unwrap();
        assert!(options.open(dir.join("link")).await.is_err(), "a link is not followed");
        let std = std::fs::File::options().read(true).clone();
        fs::OpenOptions::from(std).open(&path).await.unwrap();
        assert!(format!("{:?}", fs::OpenOptions::default().read(true)).contains("read: true"));
    });
}

#[test]
fn every_entry_is_listed_once() {
    everywhere(async || {
        let dir = Dir::new();
        // More than one batch, and more than the system returns at once.
        let names: BTreeSet<_> = (0..1000).map(|n| format!("{n:0>40}")).collect();
        for name in &names {
            dir.file(name, name);
        }
        let mut entries = fs::read_dir(dir.path()).await.unwrap();
        let mut found = BTreeSet::new();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert!(found.insert(entry.file_name().into_string().unwrap()));
        }
        assert_eq!(found, names);
        assert!(entries.next_entry().await.unwrap().is_none(), "the end stays");

        let mut entries = fs::read_dir(dir.path()).await.unwrap();
        let mut count = 0;
        while let Some(entry) = poll_fn(|cx| Pin::new(&mut entries).poll_next(cx)).await {
            entry.unwrap();
            count += 1;
        }
        assert_eq!(count, 1000, "as a stream, too");
    });
}

#[test]
fn an_entry_tells_what_it_is() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "hello");
        let mut entries = fs::read_dir(dir.path()).await.unwrap();
        let entry = entries.next_entry().await.unwrap().unwrap();
        assert_eq!((entry.path(), entry.file_name()), (path.clone(), "file".into()));
        assert_eq!(entry.metadata().await.unwrap().len(), 5);
        assert!(entry.file_type().await.unwrap().is_file());
        assert_eq!(entry.ino(), std::fs::metadata(&path).unwrap().ino());
        std::fs::remove_file(&path).unwrap();
        let gone = entry.metadata().await;
        check_error(gone, ErrorKind::NotFound, Some(libc::ENOENT), &["metadata of", "/file\""]);
        assert!(entry.file_type().await.unwrap().is_file(), "that was known");
    });
}

#[test]
fn a_directory_that_is_removed_while_it_is_listed_ends() {
    everywhere(async || {
        let dir = Dir::new();
        std::fs::create_dir(dir.join("a")).unwrap();
        (0..100).for_each(|n| _ = dir.file(&format!("a/{n}"), ""));
        let mut entries = fs::read_dir(dir.join("a")).await.unwrap();
        entries.next_entry().await.unwrap().unwrap();
        std::fs::remove_dir_all(dir.join("a")).unwrap();
        let mut count = 1;
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert!(!entry.path().exists());
            count += 1;
        }
        assert!(count <= 100);

        std::fs::create_dir(dir.join("a")).unwrap();
        let mut entries = fs::read_dir(dir.join("a")).await.unwrap();
        std::fs::remove_dir(dir.join("a")).unwrap();
        assert!(entries.next_entry().await.unwrap().is_none());
    });
}

#[test]
fn what_cannot_be_listed_is_an_error() {
    everywhere(async || {
        let dir = Dir::new();
        let says = ["read directory", "/file\""];
        let listed = fs::read_dir(dir.file("file", "")).await;
        check_error(listed, ErrorKind::NotADirectory, Some(libc::ENOTDIR), &says);
        let listed = fs::read_dir(dir.join("absent")).await;
        check_error(listed, ErrorKind::NotFound, Some(libc::ENOENT), &["/absent\""]);
    });
}

#[test]
fn a_dropped_wait_for_an_entry_loses_none() {
    let runtime = support::builder(0).max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let dir = Dir::new();
        (0..100).for_each(|n| _ = dir.file(&format!("{n}"), ""));
        let mut entries = fs::read_dir(dir.path()).await.unwrap();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        runtime::task::spawn_blocking(move || _ = may_go_on.recv());
        assert!(poll_once(entries.next_entry()).is_pending());
        drop(go_on);
        let mut count = 0;
        while entries.next_entry().await.unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 100);
    });
}

#[test]
fn names_move_and_multiply() {
    everywhere(async || {
        let dir = Dir::new();
        dir.file("a", "a");
        fs::rename(dir.join("a"), dir.join("b")).await.unwrap();
        fs::hard_link(dir.join("b"), dir.join("c")).await.unwrap();
        assert_eq!(fs::metadata(dir.join("c")).await.unwrap().nlink(), 2);
        fs::symlink(dir.join("b"), dir.join("d")).await.unwrap();
        assert_eq!(fs::read_link(dir.join("d")).await.unwrap(), dir.join("b"));
        assert!(fs::symlink_metadata(dir.join("d")).await.unwrap().is_symlink());
        assert!(fs::metadata(dir.join("d")).await.unwrap().is_file());
        assert_eq!(fs::canonicalize(dir.join("d")).await.unwrap(), dir.join("b").canonicalize().unwrap());
        fs::remove_file(dir.join("b")).await.unwrap();
        assert_eq!(std::fs::read(dir.join("c")).unwrap(), b"a");
        assert!(!fs::try_exists(dir.join("d")).await.unwrap(), "it points nowhere");

        let permissions = std::fs::Permissions::from_mode(0o400);
        fs::set_permissions(dir.join("c"), permissions).await.unwrap();
        assert_eq!(fs::metadata(dir.join("c")).await.unwrap().permissions().mode() & 0o777, 0o400);
    });
}

#[test]
fn what_cannot_be_renamed_is_an_error_with_both_paths() {
    everywhere(async || {
        let dir = Dir::new();
        let (a, b) = (dir.join("a"), dir.join("b"));
        let (kind, number) = (ErrorKind::NotFound, Some(libc::ENOENT));
        check_error(fs::rename(&a, &b).await, kind, number, &["rename", "/a\" to \"", "/b\""]);
        check_error(fs::hard_link(&a, &b).await, kind, number, &["link", "/a\" to \"", "/b\""]);
        check_error(fs::copy(&a, &b).await, kind, number, &["copy", "/a\" to \"", "/b\""]);
        check_error(fs::remove_file(&a).await, kind, number, &["remove", "/a\""]);
        check_error(fs::read_link(&a).await, kind, number, &["read link", "/a\""]);
        check_error(fs::canonicalize(&a).await, kind, number, &["canonicalize", "/a\""]);
        check_error(fs::symlink_metadata(&a).await, kind, number, &["metadata of", "/a\""]);
        let permissions = std::fs::Permissions::from_mode(0o400);
        let set = fs::set_permissions(&a, permissions).await;
        check_error(set, kind, number, &["set permissions of", "/a\""]);
        std::os::unix::fs::symlink(&a, &b).unwrap();
        std::os::unix::fs::symlink(&b, &a).unwrap();
        let error = fs::try_exists(&a).await.unwrap_err();
        assert!(cfg!(feature = "raw-os-errors") || error.to_string().contains("/a\""), "{error}");
    });
}

#[test]
fn a_runtime_that_has_ended_is_an_error_where_the_pool_is_needed() {
    each_kind(|runtime| {
        let dir = Dir::new();
        dir.file("a", "a");
        let handle = runtime.handle().clone();
        drop(runtime);
        let other = build(1);
        other.block_on(async {
            let _guard = handle.enter();
            let error = fs::copy(dir.join("a"), dir.join("b")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Other, "{error}");
            assert!(fs::remove_dir_all(dir.path()).await.is_err());
        });
        assert!(dir.join("a").exists());
    });
}
